#include "core/domain.h"

#include "core/reply.h"

static bool check_domain(struct connection *connection, uint64_t id,
                         const struct pool_domain *domain)
{
  const struct actor *actor = &connection->actor;

  if (domain->lifetime < MSG_LIFETIME_SESSION || domain->lifetime > MSG_LIFETIME_TTL) {
    reply_error(connection, id, DLP_STATUS_INVALID, "%u is no lifetime", domain->lifetime);
    return false;
  }
  if (domain->backend > MSG_BACKEND_POSIX_SHM) {
    reply_error(connection, id, DLP_STATUS_UNSUPPORTED, "%u is no storage backend",
                domain->backend);
    return false;
  }
  if (domain->mode & ~POLICY_MODE_MASK) {
    reply_error(connection, id, DLP_STATUS_INVALID,
                "mode %#o has other bits than r and w for owner, group and others", domain->mode);
    return false;
  }
  if (!policy_in_group(actor, domain->gid) && actor->uid != 0) {
    reply_error(connection, id, DLP_STATUS_DENIED, "uid %u is not in group %u", actor->uid,
                domain->gid);
    return false;
  }
  if (domain->backend == MSG_BACKEND_POSIX_SHM &&
      ((domain->mode & 0066) || domain->owner != actor->uid)) {
    reply_error(connection, id, DLP_STATUS_UNSUPPORTED,
                "posix-shm cannot keep readers from writing, so it serves names of one's own "
                "with mode 0600 only: use that, or memfd");
    return false;
  }
  return true;
}

bool domain_complete(struct connection *connection, uint64_t request, struct pool_domain *domain)
{
  const struct broker_config *config = &connection->broker->config;
  const struct actor *actor = &connection->actor;

  if (domain->owner == MSG_OWNER_SELF)
    domain->owner = actor->uid;
  if (domain->gid == MSG_OWNER_SELF)
    domain->gid = actor->gid;
  if (domain->mode == 0)
    domain->mode = config->default_mode;
  if (domain->backend == MSG_BACKEND_DEFAULT)
    domain->backend = config->backend;
  return check_domain(connection, request, domain);
}
