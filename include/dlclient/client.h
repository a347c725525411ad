#ifndef DLCLIENT_CLIENT_H
#define DLCLIENT_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "export.h"

DLC_BEGIN_DECLS

/** A connection to the daemon. Opaque. */
struct dlc_client;

/** How to connect. Start from DLC_CONNECT_OPTIONS_INIT; zero means default. */
struct dlc_connect_options {
  size_t struct_size;
  const char *client_name; /**< shown by dlctl; default: the program's name */
  const char *name_space;  /**< goes before every own name; default: $DLPACKD_NAMESPACE */
  int32_t call_timeout_ms; /**< longest wait for the daemon in any call; default 10,000; -1 none */
  uint32_t flags;          /**< 0 */
};

#define DLC_CONNECT_OPTIONS_INIT                         \
  {                                                      \
    sizeof(struct dlc_connect_options), NULL, NULL, 0, 0 \
  }

/**
 * Connect to the daemon.
 *
 * @param[in]  socket_path  where it listens; NULL tries, in this order,
 *                          $DLPACKD_SOCKET, /run/dlpackd/socket,
 *                          $XDG_RUNTIME_DIR/dlpackd/socket and
 *                          /tmp/dlpackd-UID/socket, and takes the first that is
 *                          there
 * @param[in]  options      NULL for the defaults
 * @param[out] ret_client   the connection; untouched unless 0 is returned
 * @param[out] reterr       filled on failure; may be NULL
 *
 * @par Ownership
 * The caller owns `*ret_client` and gives it to dlc_close() once.
 *
 * @par Threads
 * Any number of threads may use one client at the same time. A child of fork
 * may read the tensors its parent held, and run their deleters, but must open
 * a client of its own.
 *
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_INVALID    an option is out of range, or the path is longer than a socket's may be
 * @retval -DLC_E_NO_DAEMON  nothing listens there
 * @retval -DLC_E_DENIED     the socket may not be used by this user
 * @retval -DLC_E_VERSION    the daemon speaks another major version of the protocol
 * @retval -DLC_E_TIMEOUT    no answer in time
 * @retval -DLC_E_QUOTA      this user has as many sessions as it may
 * @retval -DLC_E_NO_MEMORY  out of memory
 * @retval -DLC_E_SYSTEM     a system call failed
 * @retval -DLC_E_PROTOCOL   what answers is not dlpackd
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_connect(const char *socket_path,
                                     const struct dlc_connect_options *options,
                                     struct dlc_client **ret_client, struct dlc_error *reterr);

/**
 * Close a connection.
 *
 * Tensors that were got through it stay valid until their own deleter runs; what
 * was published with session lifetime goes when the last of them has gone.
 *
 * @param[in] client  NULL is harmless
 * @since 0.1
 */
DLC_PUBLIC void dlc_close(struct dlc_client *client);

/** Who answers. Strings belong to the client. */
struct dlc_daemon_info {
  uint8_t daemon_id[16];      /**< kept by a daemon for its life */
  const char *boot_id;        /**< of the host's kernel */
  const char *host;           /**< host name */
  const char *daemon_version; /**< such as "0.1.0" */
  const char *socket_path;    /**< where we connected */
  uint32_t protocol_major;
  uint32_t protocol_minor;
  uint64_t session; /**< our number there */
  uint32_t uid;     /**< who the daemon takes us for */
};

/**
 * Ask for a sign of life, and who it is that gives it.
 *
 * @param[in]  client    open connection
 * @param[out] ret_info  untouched unless 0 is returned; strings are valid until
 *                       dlc_close()
 * @param[out] reterr    filled on failure; may be NULL
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_TIMEOUT       no answer in time
 * @retval -DLC_E_DISCONNECTED  the daemon went away
 * @retval -DLC_E_NO_DAEMON     it went away earlier and nothing listens there now
 * @retval -DLC_E_FORKED        the client belongs to the parent process
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_ping(struct dlc_client *client, struct dlc_daemon_info *ret_info,
                                  struct dlc_error *reterr);

DLC_END_DECLS

#endif
