#include "io/sessions.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/tree.h"
#include "io/memory.h"

struct session {
  struct dlp_tree_node node;
  uint64_t id;
  struct sessions *sessions;
  int holds;
  int grants;
  struct lease_pages pages;
  int pidfd;                /* or -1 */
  struct loop_watch *death; /* of the pidfd, or NULL */
  struct loop_timer *probe_timer;
  bool probing; /* the timer runs, or a thread does */
};

struct sessions {
  struct loop *loop;
  struct sessions_host host;
  struct dlp_tree tree;
  struct dlp_list probes; /* under way; they outlive what they were started for */
};

/* One try, on a thread that touches nothing but `fd`. */
struct probe {
  struct dlp_list link;
  struct sessions *sessions; /* NULL: nobody wants to know any more */
  uint64_t session;
  int fd;
};

static int compare(const void *key, const struct dlp_tree_node *node)
{
  uint64_t id = *(const uint64_t *)key;
  const struct session *session = DLP_CONTAINER(node, struct session, node);

  return (id > session->id) - (id < session->id);
}

int sessions_new(struct sessions **ret, struct loop *loop, const struct sessions_host *host)
{
  struct sessions *sessions = calloc(1, sizeof(*sessions));

  if (!sessions)
    return -ENOMEM;
  sessions->loop = loop;
  sessions->host = *host;
  /* The core numbers sessions, no client does. */
  dlp_tree_init(&sessions->tree, compare, 1);
  dlp_list_init(&sessions->probes);
  *ret = sessions;
  return 0;
}

static struct session *find(struct sessions *sessions, uint64_t id)
{
  struct dlp_tree_node *node = dlp_tree_find(&sessions->tree, &id);

  return node ? DLP_CONTAINER(node, struct session, node) : NULL;
}

static struct session *session_free(struct session *session)
{
  (void)loop_watch_free(session->death);
  (void)loop_timer_free(session->probe_timer);
  (void)dlp_close(session->pidfd);
  if (session->pages.grants)
    (void)munmap(session->pages.grants, DLP_LEASE_PAGE_SIZE);
  if (session->pages.holds)
    (void)munmap((void *)session->pages.holds, DLP_LEASE_PAGE_SIZE);
  (void)dlp_close(session->holds);
  (void)dlp_close(session->grants);
  free(session);
  return NULL;
}

DLP_DEFINE_CLEANUP(struct session, session)

struct sessions *sessions_free(struct sessions *sessions)
{
  struct dlp_tree_node *node;

  if (!sessions)
    return NULL;
  while ((node = dlp_tree_first(&sessions->tree)))
    sessions_close(sessions, DLP_CONTAINER(node, struct session, node)->id);
  dlp_list_for_each (link, &sessions->probes) {
    DLP_CONTAINER(link, struct probe, link)->sessions = NULL;
    dlp_list_remove(link);
  }
  free(sessions);
  return NULL;
}

static void on_death(void *context, unsigned events)
{
  struct session *session = context;
  struct sessions *sessions = session->sessions;

  /* It stays readable: tell it once, also if the core takes its time to close. */
  session->death = loop_watch_free(session->death);
  sessions->host.died(sessions->host.context, session->id);
}

static int probe_work(void *context)
{
  struct probe *probe = context;

  return fcntl(probe->fd, F_ADD_SEALS, F_SEAL_WRITE) < 0 ? -errno : 0;
}

static void probe_done(void *context, int result)
{
  struct probe *probe = context;
  struct sessions *sessions = probe->sessions;
  struct session *session = sessions ? find(sessions, probe->session) : NULL;
  uint64_t id = probe->session;

  dlp_list_remove(&probe->link);
  (void)dlp_close(probe->fd);
  free(probe);
  if (!session)
    return;
  if (result == 0)
    sessions->host.died(sessions->host.context, id);
  else
    loop_timer_set(session->probe_timer, SESSIONS_PROBE_AGAIN_MS);
}

static int probe_start(struct session *session)
{
  struct probe *probe = calloc(1, sizeof(*probe));
  int r = 0;

  if (!probe)
    return -ENOMEM;
  probe->sessions = session->sessions;
  probe->session = session->id;
  probe->fd = fcntl(session->holds, F_DUPFD_CLOEXEC, 0);
  if (probe->fd < 0)
    r = -errno;
  if (r == 0)
    r = loop_work(session->sessions->loop, probe_work, probe_done, probe);
  if (r < 0) {
    (void)dlp_close(probe->fd);
    free(probe);
    return r;
  }
  dlp_list_append(&session->sessions->probes, &probe->link);
  return 0;
}

static void on_probe_due(void *context)
{
  struct session *session = context;
  struct sessions *sessions = session->sessions;

  if (sessions->host.connected(sessions->host.context, session->id)) {
    session->probing = false;
    return;
  }
  if (probe_start(session) < 0)
    loop_timer_set(session->probe_timer, SESSIONS_PROBE_AGAIN_MS);
}

/* Its size is fixed; more seals must remain possible, one of them is the probe. */
static int make_holds(uint64_t session)
{
  dlp_auto_close int fd = -1;
  char label[64];

  (void)snprintf(label, sizeof(label), "dlpackd-holds:%" PRIu64, session);
  fd = memory_memfd_new(label, DLP_LEASE_PAGE_SIZE);
  if (fd < 0)
    return fd;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
    return -errno;
  return DLP_TAKE_FD(fd);
}

static int make_grants(uint64_t session)
{
  char label[64];

  (void)snprintf(label, sizeof(label), "dlpackd-grants:%" PRIu64, session);
  return memory_memfd_new(label, DLP_LEASE_PAGE_SIZE);
}

/* The grants are sealed once we have mapped them: nobody else writes there, whatever
 * his uid. The holds are mapped from a read-only descriptor, since a mapping that could
 * become writable would make the probe for the client's take ours for it. */
static int map_pages(struct session *session)
{
  dlp_auto_close int holds = memory_reopen_read_only(session->holds);
  void *map;

  if (holds < 0)
    return holds;
  map = mmap(NULL, DLP_LEASE_PAGE_SIZE, PROT_READ, MAP_SHARED, holds, 0);
  if (map == MAP_FAILED)
    return -errno;
  session->pages.holds = map;
  map = mmap(NULL, DLP_LEASE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, session->grants, 0);
  if (map == MAP_FAILED)
    return -errno;
  session->pages.grants = map;
  if (fcntl(session->grants, F_ADD_SEALS,
            F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
    return -errno;
  return 0;
}

static int watch_death(struct session *session, int pidfd)
{
  if (pidfd < 0)
    return 0;
  session->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
  if (session->pidfd < 0)
    return -errno;
  return loop_watch_new(&session->death, session->sessions->loop, session->pidfd, LOOP_READABLE,
                        on_death, session);
}

int sessions_open(struct sessions *sessions, uint64_t id, int pidfd, struct lease_pages *ret_pages)
{
  dlp_cleanup_(session_freep) struct session *session = calloc(1, sizeof(*session));
  int r;

  assert(!find(sessions, id));
  if (!session)
    return -ENOMEM;
  session->id = id;
  session->sessions = sessions;
  session->pidfd = -1;
  session->grants = -1;
  session->holds = make_holds(id);
  if (session->holds < 0)
    return session->holds;
  session->grants = make_grants(id);
  if (session->grants < 0)
    return session->grants;
  r = map_pages(session);
  if (r < 0)
    return r;
  r = loop_timer_new(&session->probe_timer, sessions->loop, on_probe_due, session);
  if (r < 0)
    return r;
  r = watch_death(session, pidfd);
  if (r < 0)
    return r;
  *ret_pages = session->pages;
  dlp_tree_insert(&sessions->tree, &session->id, &session->node);
  (void)DLP_TAKE(session);
  return 0;
}

void sessions_close(struct sessions *sessions, uint64_t id)
{
  struct session *session = find(sessions, id);

  if (!session)
    return;
  dlp_tree_remove(&sessions->tree, &session->node);
  (void)session_free(session);
}

static void hung_up(struct session *session)
{
  struct sessions *sessions = session->sessions;

  if (session->probing || sessions->host.connected(sessions->host.context, session->id))
    return;
  session->probing = true;
  loop_timer_set(session->probe_timer, SESSIONS_PROBE_FIRST_MS);
}

void sessions_hung_up(struct sessions *sessions, uint64_t id)
{
  struct session *session = find(sessions, id);

  if (session)
    hung_up(session);
}

void sessions_somebody_hung_up(struct sessions *sessions)
{
  dlp_tree_for_each (node, &sessions->tree)
    hung_up(DLP_CONTAINER(node, struct session, node));
}

int sessions_open_holds(struct sessions *sessions, uint64_t id)
{
  struct session *session = find(sessions, id);
  int fd;

  if (!session)
    return -ENOENT;
  fd = fcntl(session->holds, F_DUPFD_CLOEXEC, 0);
  return fd < 0 ? -errno : fd;
}

int sessions_open_grants(struct sessions *sessions, uint64_t id)
{
  struct session *session = find(sessions, id);

  return session ? memory_reopen_read_only(session->grants) : -ENOENT;
}
