#ifndef DLCLIENT_ERROR_H
#define DLCLIENT_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include "export.h"

DLC_BEGIN_DECLS

/**
 * Every way a call can fail: number, name, what it means.
 *
 * Functions return 0 or the negative of one of these. Numbers never change.
 */
#define DLC_ERROR_MAP(X)                                                        \
  X(1, INVALID, "an argument is not valid")                                     \
  X(2, NO_MEMORY, "this process or the daemon is out of memory")                \
  X(3, SYSTEM, "the operating system refused; os_errno says why")               \
  X(4, NOT_FOUND, "there is no such tensor, or you may not get it")             \
  X(5, DENIED, "your user may not do that")                                     \
  X(6, EXISTS, "the name is in use")                                            \
  X(7, CONFLICT, "the newest version is not the expected one")                  \
  X(8, NO_SPACE, "the daemon's memory limit, or the host's memory, is used up") \
  X(9, QUOTA, "your user's quota is used up")                                   \
  X(10, TIMEOUT, "the deadline passed")                                         \
  X(11, DISCONNECTED, "the daemon went away during the call")                   \
  X(12, NO_DAEMON, "no daemon answers at the socket")                           \
  X(13, VERSION, "the other side speaks another major version")                 \
  X(14, UNSUPPORTED, "the daemon, the kernel or the backend cannot do that")    \
  X(15, PROTOCOL, "the other side broke the protocol")                          \
  X(16, NAME, "the name breaks the grammar of names")                           \
  X(17, LAYOUT, "the shape, strides or offset are not valid")                   \
  X(18, DTYPE, "the data type is not known")                                    \
  X(19, PUBLISHED, "the tensor is published already and cannot change")         \
  X(20, FORKED, "the client was opened before fork; open one in the child")     \
  X(21, BUSY, "too much is going on at once; try again later")

/** The codes, positive; functions return them negated. */
enum dlc_error_code {
  DLC_OK = 0,
#define X(number, name, text) DLC_E_##name = number,
  DLC_ERROR_MAP(X)
#undef X
};

/** What went wrong, for people. Filled only when a call fails. */
struct dlc_error {
  int32_t code;      /**< positive, one of enum dlc_error_code */
  int32_t os_errno;  /**< errno, or 0 */
  char message[496]; /**< one sentence: what, which limit, what to do */
};

/**
 * The name of a code, such as "DLC_E_NOT_FOUND".
 *
 * @param[in] code  as returned (negative) or as in struct dlc_error (positive)
 * @return a static string; "DLC_E_UNKNOWN" for a number that is none
 * @since 0.1
 */
DLC_PUBLIC const char *dlc_error_name(int code);

/**
 * What a code means, in a few words.
 *
 * @param[in] code  as for dlc_error_name()
 * @return a static string
 * @since 0.1
 */
DLC_PUBLIC const char *dlc_error_text(int code);

DLC_END_DECLS

#endif
