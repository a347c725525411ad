#ifndef DLCLIENT_INFO_H
#define DLCLIENT_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "client.h"
#include "publish.h"

DLC_BEGIN_DECLS

/** Facts about a version, for struct dlc_info. */
enum dlc_info_flags {
  DLC_INFO_MUTABLE = 1u << 0,
  DLC_INFO_FROZEN = 1u << 1,   /**< sealed against its producer too */
  DLC_INFO_UNSEALED = 1u << 2, /**< its backend cannot seal */
  DLC_INFO_RETIRED = 1u << 3,  /**< replaced or deleted, still held by somebody */
  DLC_INFO_PADDED = 1u << 4,   /**< sub-byte elements take a whole byte each */
};

/** One version of one name. Pointers belong to whoever gave the struct. */
struct dlc_info {
  size_t struct_size;
  const char *name; /**< as this client would ask for it: `~uid/...` if not its own */
  uint64_t version; /**< microseconds since 1970 or a little more; grows, never repeats */
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  uint32_t flags; /**< enum dlc_info_flags */
  int32_t ndim;
  int32_t device_type; /**< DLPack's number; 1 is the CPU */
  const int64_t *shape;
  const int64_t *strides; /**< in elements */
  uint64_t nbytes;        /**< bytes between its first and its last */
  uint32_t lifetime;      /**< enum dlc_lifetime */
  uint32_t backend;       /**< enum dlc_backend */
  uint64_t ttl_ms;        /**< what is left of it, with DLC_LIFETIME_TTL */
  uint32_t owner_uid;
  uint32_t gid;
  uint32_t mode; /**< permission bits, as of a file */
  uint32_t publisher_uid;
  int32_t publisher_pid; /**< as the daemon sees it; 0: not known */
  uint32_t readers;      /**< leases on it that are held */
  uint64_t created_us;   /**< wall clock, microseconds since 1970 */
  uint64_t age_ms;
  uint64_t segment; /**< which piece of shared memory it lies in */
  uint64_t offset;  /**< bytes from the start of it */
  size_t n_attributes;
  const struct dlc_attribute *attributes; /**< sorted by key */
};

/**
 * The value of an attribute.
 *
 * @param[in] info  from this library
 * @param[in] key   which
 * @return valid as long as `info`; NULL if there is none
 * @since 0.1
 */
DLC_PUBLIC const char *dlc_info_attribute(const struct dlc_info *info, const char *key);

/**
 * The name of a data type, such as "float32", "bfloat16", "float4_e2m1fn" or "float32x4".
 *
 * @param[in]  code    DLPack's type code
 * @param[in]  bits    of one lane
 * @param[in]  lanes   1 unless a vector
 * @param[out] buffer  gets the name and a NUL; 48 bytes are always enough
 * @param[in]  size    of `buffer`, in bytes
 * @return `buffer`
 * @since 0.1
 */
DLC_PUBLIC const char *dlc_dtype_name(uint8_t code, uint8_t bits, uint16_t lanes, char *buffer,
                                      size_t size);

/**
 * Look at a name without holding it.
 *
 * @param[in]  client    open connection
 * @param[in]  name      as it was published
 * @param[out] ret_info  free it with dlc_info_free(); untouched unless 0 is returned
 * @param[out] reterr    filled on failure; may be NULL
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_NOT_FOUND     no such tensor, or it is not yours to see
 * @retval -DLC_E_NAME          the name breaks the grammar
 * @retval -DLC_E_TIMEOUT       no answer in time
 * @retval -DLC_E_DISCONNECTED  the daemon went away
 * @retval -DLC_E_NO_DAEMON     nothing listens at the socket
 * @retval -DLC_E_FORKED        the client belongs to the parent process
 * @retval -DLC_E_NO_MEMORY     out of memory
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_stat(struct dlc_client *client, const char *name,
                                  struct dlc_info **ret_info, struct dlc_error *reterr);

/**
 * Free what dlc_stat() or dlc_wait() gave.
 *
 * @param[in] info  NULL is harmless
 * @since 0.1
 */
DLC_PUBLIC void dlc_info_free(struct dlc_info *info);

/**
 * Wait for a version newer than one that is known.
 *
 * @param[in]  client      open connection
 * @param[in]  name        need not be there yet
 * @param[in]  newer_than  0: any version will do
 * @param[in]  timeout_ms  0 never waits, -1 waits without limit
 * @param[out] ret_info    as for dlc_stat(); may be NULL
 * @param[out] reterr      filled on failure; may be NULL
 * @return as dlc_stat(), but -DLC_E_TIMEOUT when none came in time
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_wait(struct dlc_client *client, const char *name, uint64_t newer_than,
                                  int32_t timeout_ms, struct dlc_info **ret_info,
                                  struct dlc_error *reterr);

/** What to list. Start from DLC_LIST_OPTIONS_INIT; zero means default. */
struct dlc_list_options {
  size_t struct_size;
  const char *pattern; /**< prefix ("model/"), glob ("model/?.weight", "*" crosses slashes), or
                            NULL for all; `~user/...` for somebody else's */
  uint32_t flags;      /**< enum dlc_list_flags */
  uint32_t reserved;   /**< 0 */
};

enum dlc_list_flags {
  DLC_LIST_ALL_OWNERS = 1u << 0, /**< everybody's that you may see */
  DLC_LIST_RETIRED = 1u << 1,    /**< also replaced and deleted ones that are still held */
};

#define DLC_LIST_OPTIONS_INIT                   \
  {                                             \
    sizeof(struct dlc_list_options), NULL, 0, 0 \
  }

/**
 * Called for each tensor of a listing.
 *
 * @param[in] context  as given
 * @param[in] info     borrowed for the call
 * @return 0 to go on; anything else ends the listing
 */
typedef int (*dlc_list_fn)(void *context, const struct dlc_info *info);

/**
 * List what is there, in the order of owners and of the names' bytes.
 *
 * The daemon answers in pages, so that nobody waits for a long listing; names
 * that come or go meanwhile may be in it or not.
 *
 * @param[in]  client    open connection
 * @param[in]  options   NULL: all of this user's
 * @param[in]  function  called from this thread; it may use the client
 * @param[in]  context   for `function`
 * @param[out] reterr    filled on failure; may be NULL
 * @return 0, what `function` returned if that was not 0, or a negated code as
 *         of dlc_stat()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_list(struct dlc_client *client, const struct dlc_list_options *options,
                                  dlc_list_fn function, void *context, struct dlc_error *reterr);

/**
 * Called for each of the daemon's counters.
 *
 * @param[in] context  as given
 * @param[in] name     such as "tensors" or "bytes_resident"
 * @param[in] value    as of now
 */
typedef void (*dlc_stats_fn)(void *context, const char *name, uint64_t value);

/**
 * The daemon's counters.
 *
 * @param[in]  client    open connection
 * @param[in]  function  called from this thread
 * @param[in]  context   for `function`
 * @param[out] reterr    filled on failure; may be NULL
 * @return as dlc_ping()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_stats(struct dlc_client *client, dlc_stats_fn function, void *context,
                                   struct dlc_error *reterr);

DLC_END_DECLS

#endif
