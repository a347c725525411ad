#ifndef DLCLIENT_WATCH_H
#define DLCLIENT_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "client.h"

DLC_BEGIN_DECLS

/** A subscription to changes. Opaque. */
struct dlc_watch;

enum dlc_event_kind {
  DLC_EVENT_PUBLISHED = 1, /**< a new version is there; older ones may have been skipped */
  DLC_EVENT_DELETED = 2,   /**< the name is gone */
  DLC_EVENT_GAP = 3,       /**< deletions may have been missed; list again. `name` is "" */
};

/** One change. Borrowed for the call of the function that gets it. */
struct dlc_event {
  size_t struct_size;
  uint32_t kind; /**< enum dlc_event_kind */
  uint32_t reserved;
  const char *name; /**< as in struct dlc_info */
  uint64_t version;
  uint64_t change; /**< the registry's change number, to resume from */
};

/**
 * Called for each change.
 *
 * @param[in] context  as given
 * @param[in] event    borrowed for the call
 */
typedef void (*dlc_watch_fn)(void *context, const struct dlc_event *event);

/** `since` for dlc_watch_open(). */
#define DLC_WATCH_FROM_NOW UINT64_MAX /**< only what changes from here on */
#define DLC_WATCH_EVERYTHING 0        /**< what is there, then what changes */

/**
 * Watch the names below a prefix.
 *
 * A slow watcher misses intermediate versions, never the newest. The watch has a
 * connection of its own.
 *
 * @param[in]  client     open connection; may be closed before the watch
 * @param[in]  prefix     as for dlc_list(), but no glob; NULL: all of this user's
 * @param[in]  since      a change number that was seen, or one of the macros above
 * @param[out] ret_watch  untouched unless 0 is returned
 * @param[out] reterr     filled on failure; may be NULL
 *
 * @par Ownership
 * The caller owns `*ret_watch` and gives it to dlc_watch_close() once.
 *
 * @par Threads
 * One thread at a time may use a watch.
 *
 * @return as dlc_connect(), and -DLC_E_NAME
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_watch_open(struct dlc_client *client, const char *prefix,
                                        uint64_t since, struct dlc_watch **ret_watch,
                                        struct dlc_error *reterr);

/**
 * A descriptor that becomes readable when there is something to dispatch.
 *
 * @param[in] watch  open
 * @return to poll only; owned by the watch. It changes when a connection that was
 *         lost is replaced: ask again after each dlc_watch_dispatch()
 * @since 0.1
 */
DLC_PUBLIC int dlc_watch_fd(const struct dlc_watch *watch);

/**
 * Wait for changes and hand them on.
 *
 * @param[in]  watch       open
 * @param[in]  timeout_ms  0 never waits, -1 waits without limit
 * @param[in]  function    called from this thread, once per change
 * @param[in]  context     for `function`
 * @param[out] reterr      filled on failure; may be NULL
 * @return how many changes there were, 0 at the timeout, or a negated code
 * @retval -DLC_E_DISCONNECTED  the daemon went away; the next call connects again
 * @retval -DLC_E_NO_DAEMON     nothing listens at the socket now
 * @retval -DLC_E_FORKED        the watch belongs to the parent process
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_watch_dispatch(struct dlc_watch *watch, int32_t timeout_ms,
                                            dlc_watch_fn function, void *context,
                                            struct dlc_error *reterr);

/**
 * End a watch.
 *
 * @param[in] watch  NULL is harmless
 * @since 0.1
 */
DLC_PUBLIC void dlc_watch_close(struct dlc_watch *watch);

DLC_END_DECLS

#endif
