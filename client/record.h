#ifndef DLPACKD_CLIENT_RECORD_H
#define DLPACKD_CLIENT_RECORD_H

/*
 * struct dlc_info, made from what the daemon says of a tensor: one piece of heap
 * that holds the struct and everything it points at.
 *
 * Pure. Any thread.
 */

#include "dlclient.h"
#include "proto/message.h"

/* Whose words a name is written in. */
struct dlc__reader {
  const char *name_space;
  uint32_t own_uid;
};

/* Return: free() it; NULL if out of memory. */
struct dlc_info *dlc__record_new(const struct dlc__reader *reader, const struct msg_tensor *tensor);

/* Of a record made here: its bytes, and a copy in the caller's memory of so many. */
size_t dlc__record_size(const struct dlc_info *info);
struct dlc_info *dlc__record_copy(const struct dlc_info *info, void *memory);

#endif
