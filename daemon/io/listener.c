#include "io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"

#define LISTENER_BACKLOG 256
#define LISTENER_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

struct listener {
  int fd;
  int lock;  /* or -1 */
  int spare; /* given up for a moment to accept and refuse when no other is free */
  dev_t device;
  ino_t inode;
  bool is_ours; /* we made the socket at `path` */
  char path[LISTENER_PATH_MAX + 1];
  char lock_path[LISTENER_PATH_MAX + sizeof(".lock")];
};

DLP_DEFINE_CLEANUP(struct listener, listener)

static int listener_new(struct listener **ret)
{
  struct listener *listener = calloc(1, sizeof(*listener));

  if (!listener)
    return -ENOMEM;
  listener->fd = listener->lock = -1;
  listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
  *ret = listener;
  return 0;
}

/* The socket's directory, made if it is missing. */
static int make_directory(const char *path, unsigned mode, struct complaint *reterr)
{
  char directory[LISTENER_PATH_MAX + 1];
  char *slash;

  (void)snprintf(directory, sizeof(directory), "%s", path);
  slash = strrchr(directory, '/');
  if (!slash || slash == directory)
    return 0;
  *slash = '\0';
  /* Others may pass through to a socket that lets others in. */
  if (mkdir(directory, mode & 0077 ? 0755 : 0700) == 0 || errno == EEXIST)
    return 0;
  return complain(reterr, -errno, "cannot make the directory %s of the socket: %s", directory,
                  strerror(errno));
}

/* Is the file we hold locked still the one that the next daemon would open? */
static bool is_current(int fd, const char *path)
{
  struct stat held, there;

  return fstat(fd, &held) == 0 && lstat(path, &there) == 0 && held.st_dev == there.st_dev &&
         held.st_ino == there.st_ino;
}

static int take_lock(struct listener *listener, struct complaint *reterr)
{
  for (;;) {
    dlp_auto_close int fd =
        open(listener->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
      return complain(reterr, -errno, "cannot open the lock file %s: %s", listener->lock_path,
                      strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
      return complain(reterr, errno == EWOULDBLOCK ? -EADDRINUSE : -errno,
                      "another dlpackd serves %s: its lock file %s is held", listener->path,
                      listener->lock_path);
    /* Its last holder may have removed it between our open and our lock. */
    if (!is_current(fd, listener->lock_path))
      continue;
    listener->lock = DLP_TAKE_FD(fd);
    return 0;
  }
}

static void fill_address(struct sockaddr_un *address, const char *path)
{
  memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  (void)snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
}

/* Does nobody serve the socket at `path`? */
static int check_stale(const char *path, struct complaint *reterr)
{
  struct sockaddr_un address;
  dlp_auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  if (fd < 0)
    return complain(reterr, -errno, "cannot make a socket: %s", strerror(errno));
  fill_address(&address, path);
  /* A full backlog (EAGAIN) has somebody behind it as well. */
  if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN)
    return complain(reterr, -EADDRINUSE,
                    "another dlpackd serves %s; stop it first, or choose "
                    "another path with --socket",
                    path);
  if (errno == ECONNREFUSED || errno == ENOENT)
    return 0;
  if (errno == EPROTOTYPE)
    return complain(reterr, -EADDRINUSE,
                    "%s is another program's socket (not of packets); choose "
                    "another path with --socket",
                    path);
  return complain(reterr, -errno, "cannot find out whether %s is in use: %s", path,
                  strerror(errno));
}

/* Makes room for our socket, if that takes nothing away from anybody. */
static int clear_path(const char *path, struct complaint *reterr)
{
  struct stat st;
  int r;

  if (lstat(path, &st) < 0) {
    if (errno == ENOENT)
      return 0;
    return complain(reterr, -errno, "cannot look at %s: %s", path, strerror(errno));
  }
  if (!S_ISSOCK(st.st_mode))
    return complain(reterr, -EEXIST,
                    "%s is there and is not a socket; remove it, or choose "
                    "another path with --socket",
                    path);
  r = check_stale(path, reterr);
  if (r < 0)
    return r;
  if (unlink(path) < 0 && errno != ENOENT)
    return complain(reterr, -errno, "cannot remove the stale socket %s: %s", path, strerror(errno));
  return 0;
}

static int bind_socket(struct listener *listener, unsigned mode, struct complaint *reterr)
{
  struct sockaddr_un address;
  struct stat st;
  mode_t mask;
  int r;

  listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener->fd < 0)
    return complain(reterr, -errno, "cannot make a socket: %s", strerror(errno));
  fill_address(&address, listener->path);
  /* By the mask, so that there is no moment in which it is open to more. */
  mask = umask(0777 & ~mode);
  r = bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
  (void)umask(mask);
  if (r == 0 && lstat(listener->path, &st) == 0) {
    listener->is_ours = true;
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
  }
  if (r == 0 && listen(listener->fd, LISTENER_BACKLOG) < 0)
    r = -errno;
  if (r < 0)
    return complain(reterr, r, "cannot listen at %s: %s", listener->path, strerror(-r));
  return 0;
}

int listener_open(struct listener **ret, const char *path, unsigned mode, struct complaint *reterr)
{
  dlp_cleanup_(listener_freep) struct listener *listener = NULL;
  int r;

  if (!*path)
    return complain(reterr, -EINVAL, "the path of the socket is empty");
  if (strlen(path) > LISTENER_PATH_MAX)
    return complain(reterr, -ENAMETOOLONG,
                    "the path of the socket has %zu bytes; the system allows %zu: %s", strlen(path),
                    LISTENER_PATH_MAX, path);
  r = listener_new(&listener);
  if (r < 0)
    return complain(reterr, r, "out of memory");
  (void)snprintf(listener->path, sizeof(listener->path), "%s", path);
  (void)snprintf(listener->lock_path, sizeof(listener->lock_path), "%s.lock", path);
  r = make_directory(path, mode, reterr);
  if (r < 0)
    return r;
  r = take_lock(listener, reterr);
  if (r < 0)
    return r;
  r = clear_path(path, reterr);
  if (r < 0)
    return r;
  r = bind_socket(listener, mode, reterr);
  if (r < 0)
    return r;
  *ret = DLP_TAKE(listener);
  return 0;
}

static bool has_option(int fd, int option, int expected)
{
  int value;
  socklen_t size = sizeof(value);

  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == expected;
}

static int make_non_blocking(int fd)
{
  int flags = fcntl(fd, F_GETFL);

  return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int listener_adopt_consume(struct listener **ret, int fd, struct complaint *reterr)
{
  struct sockaddr_un address = {0};
  socklen_t size = sizeof(address);
  struct listener *listener;
  int r;

  if (!has_option(fd, SO_DOMAIN, AF_UNIX) || !has_option(fd, SO_TYPE, SOCK_SEQPACKET))
    return complain(reterr, -EPROTOTYPE,
                    "what systemd handed in is not a Unix socket of packets; "
                    "its unit needs ListenSequentialPacket=");
  if (!has_option(fd, SO_ACCEPTCONN, 1))
    return complain(reterr, -EINVAL,
                    "the socket that systemd handed in does not listen; its unit "
                    "needs Accept=no");
  r = make_non_blocking(fd);
  if (r < 0)
    return complain(reterr, r, "cannot set up the socket handed in: %s", strerror(-r));
  r = listener_new(&listener);
  if (r < 0)
    return complain(reterr, r, "out of memory");
  if (getsockname(fd, (struct sockaddr *)&address, &size) == 0)
    (void)snprintf(listener->path, sizeof(listener->path), "%.*s", (int)LISTENER_PATH_MAX,
                   address.sun_path);
  listener->fd = fd;
  *ret = listener;
  return 0;
}

/* Somebody may have replaced our socket by theirs: that one stays. */
static void remove_socket(const struct listener *listener)
{
  struct stat st;

  if (listener->is_ours && lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
      st.st_ino == listener->inode)
    (void)unlink(listener->path);
}

struct listener *listener_free(struct listener *listener)
{
  if (!listener)
    return NULL;
  remove_socket(listener);
  if (listener->lock >= 0)
    (void)unlink(listener->lock_path);
  (void)dlp_close(listener->fd);
  (void)dlp_close(listener->spare);
  (void)dlp_close(listener->lock);
  free(listener);
  return NULL;
}

int listener_fd(const struct listener *listener)
{
  return listener->fd;
}

const char *listener_path(const struct listener *listener)
{
  return listener->path;
}

/* No descriptor is free. Waiting would leave the client hanging and the socket
 * readable for ever: one is taken by the spare's number and hung up on. */
static void refuse_one(struct listener *listener)
{
  listener->spare = dlp_close(listener->spare);
  (void)dlp_close(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC));
  listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int listener_accept(struct listener *listener, void (*function)(void *context, int fd),
                    void *context)
{
  for (int i = 0; i < LISTENER_ACCEPT_MAX; i++) {
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
      function(context, fd);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE) {
      refuse_one(listener);
      return LISTENER_E_EXHAUSTED;
    }
    if (errno == ENOMEM || errno == ENOBUFS)
      return LISTENER_E_EXHAUSTED;
    if (errno == EAGAIN)
      return 0;
    /* What is left is one peer's trouble (ECONNABORTED, EPERM of a firewall). */
  }
  return 0;
}

int listener_private_directory(const char *path, struct complaint *reterr)
{
  struct stat st;

  if (mkdir(path, 0700) == 0)
    return 0;
  if (errno != EEXIST)
    return complain(reterr, -errno, "cannot make the directory %s: %s", path, strerror(errno));
  if (lstat(path, &st) < 0)
    return complain(reterr, -errno, "cannot look at %s: %s", path, strerror(errno));
  if (!S_ISDIR(st.st_mode))
    return complain(reterr, -ENOTDIR, "%s is there and is not a directory", path);
  if (st.st_uid != geteuid())
    return complain(reterr, -EPERM, "%s belongs to uid %u, not to us", path, (unsigned)st.st_uid);
  if ((st.st_mode & 07777) != 0700)
    return complain(reterr, -EPERM, "%s has mode %04o; it must be 0700", path,
                    (unsigned)(st.st_mode & 07777));
  return 0;
}
