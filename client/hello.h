#ifndef DLPACKD_CLIENT_HELLO_H
#define DLPACKD_CLIENT_HELLO_H

/*
 * The first exchange of a connection: connect, HELLO, WELCOME.
 *
 * It runs on a socket that nobody else sees yet. What the daemon says is checked
 * here, the two lease pages included, so that what comes out can be believed.
 */

#include "client/lease.h"
#include "dlclient.h"
#include "proto/codec.h"

struct dlc__hello {
  const char *socket_path;
  const char *client_name;
  const uint8_t *token; /* of the session to take up again, or NULL */
  const uint8_t *daemon_id;
};

/* {.fd = -1} is none. */
struct dlc__welcome {
  int fd;
  struct codec_reply reply; /* u.welcome */
  struct dlc__pages *pages; /* of a new session, or NULL */
};

/* Return: 0 or a negated code. */
int dlc__hello(const struct dlc__hello *hello, int64_t deadline, struct dlc__welcome *ret,
               struct dlc_error *reterr);
void dlc__welcome_deinit(struct dlc__welcome *welcome);

#endif
