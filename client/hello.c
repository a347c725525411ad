#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/error.h"
#include "client/hello.h"
#include "client/socket.h"
#include "common/packet.h"

#define FDS_BUSY_NAP_MS 5

static int hello_timeout(const struct dlc__hello *hello, struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_TIMEOUT, 0, "the daemon at %s did not answer in time",
                        hello->socket_path);
}

static int hello_not_ours(const struct dlc__hello *hello, const char *what,
                          struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_PROTOCOL, 0, "what answers at %s is not dlpackd: %s",
                        hello->socket_path, what);
}

/* By it the daemon learns of our death where the kernel does not tell it. */
static int hello_own_pidfd(void)
{
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, getpid(), 0);
#else
  return -1;
#endif
}

static int hello_encode(const struct dlc__hello *hello, bool has_pidfd, uint8_t *buffer,
                        size_t size, size_t *ret_size)
{
  struct msg_request request = {
      .id = 1,
      .n_fds = has_pidfd ? 1 : 0,
      .type = MSG_HELLO,
      .u.hello = {.major = DLP_PROTOCOL_MAJOR,
                  .minor = DLP_PROTOCOL_MINOR,
                  .client_name = hello->client_name,
                  .token = hello->token},
  };

  return codec_encode_request(buffer, size, ret_size, &request);
}

static int hello_send(const struct dlc__hello *hello, int fd, int64_t deadline,
                      struct dlc_error *reterr)
{
  dlp_auto_close int pidfd = hello_own_pidfd();
  uint8_t buffer[1024];
  size_t size;
  int r;

  if (hello_encode(hello, pidfd >= 0, buffer, sizeof(buffer), &size) != 0)
    return dlc__error_no_memory(reterr);
  for (;;) {
    r = dlp_packet_send(fd, buffer, size, &pidfd, pidfd >= 0 ? 1 : 0);
    if (r == 0)
      return 0;
    if (r == PACKET_E_EOF)
      return dlc__error_set(reterr, DLC_E_DISCONNECTED, 0, "the daemon at %s hung up",
                            hello->socket_path);
    if (r < 0)
      return dlc__error_system(reterr, r, "send to the daemon");
    if (dlc__deadline_passed(deadline))
      return hello_timeout(hello, reterr);
    /* A full buffer of a fresh socket, or descriptors in flight: both pass. */
    dlc__clock_nap(FDS_BUSY_NAP_MS, deadline);
  }
}

static int hello_await(const struct dlc__hello *hello, int fd, int64_t deadline,
                       struct dlc_error *reterr)
{
  struct pollfd poller = {.fd = fd, .events = POLLIN};
  int n;

  do {
    n = poll(&poller, 1, dlc__deadline_poll_ms(deadline));
  } while (n < 0 && errno == EINTR);
  if (n < 0)
    return dlc__error_system(reterr, -errno, "poll");
  return n == 0 ? hello_timeout(hello, reterr) : 0;
}

static int hello_receive(const struct dlc__hello *hello, int fd, struct codec_reply *ret,
                         struct dlp_fdset *fds, struct dlc_error *reterr)
{
  dlp_auto_free uint8_t *buffer = malloc(DLP_PACKET_MAX);
  size_t size = 0;
  int r;

  if (!buffer)
    return dlc__error_no_memory(reterr);
  r = dlp_packet_receive(fd, buffer, DLP_PACKET_MAX, &size, fds);
  if (r == PACKET_E_EOF)
    return dlc__error_set(reterr, DLC_E_DISCONNECTED, 0,
                          "the daemon at %s hung up; it may be at its limit of connections",
                          hello->socket_path);
  if (r == PACKET_E_FDS_LOST)
    return dlc__error_system(reterr, -EMFILE, "take a descriptor from the daemon");
  if (r < 0)
    return dlc__error_system(reterr, r, "receive from the daemon");
  if (r > 0)
    return hello_not_ours(hello, "its first packet is cut", reterr);
  r = codec_decode_reply(ret, buffer, size);
  if (r < 0)
    return dlc__error_no_memory(reterr);
  return r > 0 ? hello_not_ours(hello, "its first packet is no message", reterr) : 0;
}

/* A page that could be cut short would kill us by SIGBUS at the first cell. */
static int hello_check_page(const struct dlc__hello *hello, int fd, struct dlc_error *reterr)
{
  struct stat status;
  int seals;

  if (fd < 0)
    return hello_not_ours(hello, "it opened a session without its two lease pages", reterr);
  if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size != DLP_LEASE_PAGE_SIZE)
    return hello_not_ours(hello, "a lease page is not of the size that it must have", reterr);
  seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK))
    return hello_not_ours(hello, "the length of a lease page is not sealed", reterr);
  return 0;
}

static int hello_map_page(const struct dlc__hello *hello, int fd, int protection, void **ret,
                          struct dlc_error *reterr)
{
  int r = hello_check_page(hello, fd, reterr);
  void *base;

  if (r < 0)
    return r;
  base = mmap(NULL, DLP_LEASE_PAGE_SIZE, protection, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return dlc__error_system(reterr, -errno, "map a lease page");
  (void)madvise(base, DLP_LEASE_PAGE_SIZE, MADV_DONTDUMP);
  *ret = base;
  return 0;
}

static int hello_map_pages(const struct dlc__hello *hello, const struct msg_welcome *welcome,
                           struct dlp_fdset *fds, struct dlc__welcome *ret,
                           struct dlc_error *reterr)
{
  dlp_auto_close int holds_fd = dlp_fdset_steal(fds, 0);
  dlp_auto_close int grants_fd = dlp_fdset_steal(fds, 1);
  void *holds, *grants;
  int r;

  if (welcome->lease_page_size != DLP_LEASE_PAGE_SIZE)
    return hello_not_ours(hello, "its lease pages are of another size than ours", reterr);
  r = hello_map_page(hello, holds_fd, PROT_READ | PROT_WRITE, &holds, reterr);
  if (r < 0)
    return r;
  /* A child that has it would look to the daemon like a sign of our life. */
  (void)madvise(holds, DLP_LEASE_PAGE_SIZE, MADV_DONTFORK);
  r = hello_map_page(hello, grants_fd, PROT_READ, &grants, reterr);
  if (r == 0) {
    ret->pages = dlc__pages_new_consume((const struct dlp_grants_page *)grants,
                                        (struct dlp_holds_page *)holds);
    if (ret->pages)
      return 0;
    (void)munmap(grants, DLP_LEASE_PAGE_SIZE);
    r = dlc__error_no_memory(reterr);
  }
  (void)munmap(holds, DLP_LEASE_PAGE_SIZE);
  return r;
}

static int hello_check(const struct dlc__hello *hello, const struct msg_reply *reply,
                       const struct dlp_fdset *fds, struct dlc_error *reterr)
{
  const struct msg_welcome *welcome = &reply->u.welcome;

  if (reply->status != DLP_STATUS_OK)
    return dlc__error_from_reply(reterr, reply);
  if (reply->type != MSG_WELCOME || !welcome->token || !welcome->daemon_id ||
      fds->size != reply->n_fds)
    return hello_not_ours(hello, "it did not say welcome", reterr);
  if (welcome->major != DLP_PROTOCOL_MAJOR)
    return dlc__error_set(reterr, DLC_E_VERSION, 0,
                          "the daemon at %s speaks version %u of the protocol, this library "
                          "version %d; update the older one",
                          hello->socket_path, welcome->major, DLP_PROTOCOL_MAJOR);
  return 0;
}

/* Taken up again only by the very daemon that knows the token. */
static bool hello_is_resumed(const struct dlc__hello *hello, const struct msg_welcome *welcome)
{
  return welcome->resumed && hello->token && hello->daemon_id &&
         memcmp(hello->daemon_id, welcome->daemon_id, DLP_TOKEN_SIZE) == 0;
}

int dlc__hello(const struct dlc__hello *hello, int64_t deadline, struct dlc__welcome *ret,
               struct dlc_error *reterr)
{
  dlp_cleanup_(dlc__welcome_deinit) struct dlc__welcome welcome = {.fd = -1};
  dlp_auto_fdset struct dlp_fdset fds = {.size = 0};
  struct msg_welcome *said = &welcome.reply.reply.u.welcome;
  int r;

  r = dlc__socket_connect(hello->socket_path, deadline, &welcome.fd, reterr);
  if (r < 0)
    return r;
  r = hello_send(hello, welcome.fd, deadline, reterr);
  if (r < 0)
    return r;
  r = hello_await(hello, welcome.fd, deadline, reterr);
  if (r < 0)
    return r;
  r = hello_receive(hello, welcome.fd, &welcome.reply, &fds, reterr);
  if (r < 0)
    return r;
  r = hello_check(hello, &welcome.reply.reply, &fds, reterr);
  if (r < 0)
    return r;
  said->resumed = hello_is_resumed(hello, said);
  if (!said->resumed) {
    r = hello_map_pages(hello, said, &fds, &welcome, reterr);
    if (r < 0)
      return r;
  }
  *ret = welcome;
  welcome = (struct dlc__welcome){.fd = -1};
  return 0;
}

void dlc__welcome_deinit(struct dlc__welcome *welcome)
{
  welcome->fd = dlp_close(welcome->fd);
  codec_reply_deinit(&welcome->reply);
  if (welcome->pages)
    dlc__pages_unref(DLP_TAKE(welcome->pages));
}
