#include "core/policy.h"

bool policy_in_group(const struct actor *actor, uint32_t gid)
{
  if (actor->gid == gid)
    return true;
  for (size_t i = 0; i < actor->n_groups; i++)
    if (actor->groups[i] == gid)
      return true;
  return false;
}

/* `bit` is 4 or 2, as of the last octal digit. */
static bool granted(const struct actor *actor, const struct access_rule *rule, uint32_t bit)
{
  if (actor->uid == rule->owner)
    return rule->mode & (bit << 6);
  if (policy_in_group(actor, rule->gid))
    return rule->mode & (bit << 3);
  return rule->mode & bit;
}

bool policy_may_read(const struct actor *actor, const struct access_rule *rule)
{
  return granted(actor, rule, 4);
}

bool policy_may_write(const struct actor *actor, const struct access_rule *rule)
{
  return granted(actor, rule, 2);
}

bool policy_may_list(const struct actor *actor, const struct access_rule *rule)
{
  return actor->is_admin || actor->uid == rule->owner || granted(actor, rule, 4) ||
         granted(actor, rule, 2);
}

bool policy_may_delete(const struct actor *actor, const struct access_rule *rule)
{
  return actor->is_admin || actor->uid == rule->owner || granted(actor, rule, 2);
}

bool policy_may_publish(const struct actor *actor, uint32_t owner, const struct access_rule *rule)
{
  return actor->uid == owner || (rule && granted(actor, rule, 2));
}
