#ifndef DLPACKD_CORE_POLICY_H
#define DLPACKD_CORE_POLICY_H

/*
 * May this user do that to this name?
 *
 * As for files: an owner, a group and mode bits; the first of owner, group and
 * others that fits decides. `r` gets, `w` replaces, deletes and maps shared.
 * Nobody is exempt: administrators list, count and delete, they do not read.
 * A name space belongs to its owner, who needs no bit to publish or delete there.
 *
 * Identity is what the kernel said of the peer: never a pid, never a claim.
 *
 * Pure. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actor {
  uint32_t realm;
  uint32_t uid;
  uint32_t gid;
  size_t n_groups;
  const uint32_t *groups;
  bool is_admin;
};

/* Whose it is and who else may. */
struct access_rule {
  uint32_t owner;
  uint32_t gid;
  uint32_t mode;
};

#define POLICY_MODE_MASK 0666u

bool policy_in_group(const struct actor *actor, uint32_t gid);
bool policy_may_read(const struct actor *actor, const struct access_rule *rule);
bool policy_may_write(const struct actor *actor, const struct access_rule *rule);
/* Its name, size and state; never its bytes. */
bool policy_may_list(const struct actor *actor, const struct access_rule *rule);
bool policy_may_delete(const struct actor *actor, const struct access_rule *rule);
/* `rule` is that of the newest version under the name; NULL if there is none. */
bool policy_may_publish(const struct actor *actor, uint32_t owner, const struct access_rule *rule);

#endif
