#ifndef DLPACKD_PROTO_STATUS_H
#define DLPACKD_PROTO_STATUS_H

/*
 * How a request ended, as it stands on the wire. 0 is success.
 *
 * The numbers are those of the public DLC_E_* codes (include/dlclient/error.h);
 * client/error.c holds the two lists together with static assertions. A number
 * is never used again for something else. 64 to 127 are for streams to come.
 */
#define DLP_STATUS_MAP(X) \
  X(1, INVALID)           \
  X(2, NO_MEMORY)         \
  X(3, SYSTEM)            \
  X(4, NOT_FOUND)         \
  X(5, DENIED)            \
  X(6, EXISTS)            \
  X(7, CONFLICT)          \
  X(8, NO_SPACE)          \
  X(9, QUOTA)             \
  X(10, TIMEOUT)          \
  X(11, DISCONNECTED)     \
  X(12, NO_DAEMON)        \
  X(13, VERSION)          \
  X(14, UNSUPPORTED)      \
  X(15, PROTOCOL)         \
  X(16, NAME)             \
  X(17, LAYOUT)           \
  X(18, DTYPE)            \
  X(19, PUBLISHED)        \
  X(20, FORKED)           \
  X(21, BUSY)

enum dlp_status {
  DLP_STATUS_OK = 0,
#define X(number, name) DLP_STATUS_##name = number,
  DLP_STATUS_MAP(X)
#undef X
};

#endif
