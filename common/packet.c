#include "common/packet.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* Since Linux 6.5; older headers do not name it. */
#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04
#endif

#define FDS_SPACE CMSG_SPACE(DLP_FDSET_MAX * sizeof(int))

/*
 * A socket that was handed in may be set to bring credentials, a security label
 * or a pidfd with every packet (PassCredentials= and the like in a socket
 * unit). They come before the descriptors: without room of their own they would
 * push them out.
 */
#define OTHERS_SPACE 1024

union control {
  struct cmsghdr align;
  char bytes[FDS_SPACE + OTHERS_SPACE];
};

static int condition_of(int error)
{
  switch (error) {
  case EAGAIN:
  case ENOBUFS:
    return PACKET_E_AGAIN;
  case EPIPE:
  case ECONNRESET:
    return PACKET_E_EOF;
  case EMSGSIZE:
    return PACKET_E_TOO_LARGE;
  case ETOOMANYREFS:
    return PACKET_E_FDS_BUSY;
  default:
    return -error;
  }
}

/* Takes the descriptors of one control message. Return: whether all found room. */
static bool take_rights(const struct cmsghdr *header, struct dlp_fdset *fds)
{
  const unsigned char *data = CMSG_DATA(header);
  size_t size = header->cmsg_len - CMSG_LEN(0);
  bool all = true;

  for (size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
    int fd;
    memcpy(&fd, data + at, sizeof(fd));
    if (dlp_fdset_add_consume(fds, fd) < 0) {
      dlp_close(fd);
      all = false;
    }
  }
  return all;
}

/* Every descriptor the kernel installed ends up in `fds` or closed. Return:
 * whether all that the peer sent are in `fds`. */
static bool take_control(struct msghdr *message, struct dlp_fdset *fds)
{
  dlp_auto_fdset struct dlp_fdset unwanted = {.size = 0};
  bool all = !(message->msg_flags & MSG_CTRUNC);

  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET)
      continue;
    if (header->cmsg_type == SCM_RIGHTS)
      all = take_rights(header, fds) && all;
    else if (header->cmsg_type == SCM_PIDFD)
      (void)take_rights(header, &unwanted);
  }
  return all;
}

/* What became of a packet of `n` bytes? */
static int judge(const struct msghdr *message, ssize_t n, bool all, const struct dlp_fdset *fds)
{
  if (!all)
    return PACKET_E_FDS_LOST;
  if (message->msg_flags & MSG_TRUNC)
    return PACKET_E_TRUNCATED;
  if (n == 0)
    return fds->size ? PACKET_E_TRUNCATED : PACKET_E_EOF;
  return 0;
}

int dlp_packet_receive(int socket, void *buffer, size_t size, size_t *ret_size,
                       struct dlp_fdset *fds)
{
  union control control;
  struct iovec bytes = {.iov_base = buffer, .iov_len = size};
  struct msghdr message;
  ssize_t n;
  int r;

  assert(fds->size == 0);
  do {
    message = (struct msghdr){
        .msg_iov = &bytes,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0)
    return condition_of(errno);

  bool all = take_control(&message, fds);
  r = judge(&message, n, all, fds);
  if (r)
    dlp_fdset_deinit(fds);
  if (r == 0 || r == PACKET_E_FDS_LOST)
    *ret_size = (size_t)n;
  return r;
}

static void attach(struct msghdr *message, union control *control, const int *fds, size_t n_fds)
{
  struct cmsghdr *header;

  message->msg_control = control->bytes;
  message->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
  memset(control->bytes, 0, message->msg_controllen);
  header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
  memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
}

int dlp_packet_send(int socket, const void *bytes, size_t size, const int *fds, size_t n_fds)
{
  union control control;
  struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  ssize_t n;

  /* An empty packet would look like the end to the peer. */
  assert(size > 0 && n_fds <= DLP_FDSET_MAX);
  if (n_fds)
    attach(&message, &control, fds, n_fds);
  do {
    n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0)
    return condition_of(errno);
  assert((size_t)n == size);
  return 0;
}
