#include "core/quota.h"

#include <assert.h>
#include <errno.h>

#include "common/list.h"
#include "common/overflow.h"
#include "common/tree.h"

struct quota_key {
  uint32_t realm;
  uint32_t uid;
};

/* One payer. Lives while it pays for anything. */
struct quota_user {
  struct dlp_tree_node node;
  struct quota *quota;
  struct quota_key key;
  size_t n_charges;
  struct quota_sum used;
};

struct quota {
  struct quota_sum limits;
  struct quota_sum total;
  struct dlp_tree users;
};

static int compare_user(const void *key, const struct dlp_tree_node *node)
{
  const struct quota_key *a = key, *b = &DLP_CONTAINER(node, struct quota_user, node)->key;

  if (a->realm != b->realm)
    return a->realm < b->realm ? -1 : 1;
  return a->uid < b->uid ? -1 : a->uid > b->uid;
}

int quota_new(struct quota **ret, const struct quota_sum *limits, uint64_t seed)
{
  struct quota *quota = calloc(1, sizeof(*quota));

  if (!quota)
    return -ENOMEM;
  quota->limits = *limits;
  dlp_tree_init(&quota->users, compare_user, seed);
  *ret = quota;
  return 0;
}

struct quota *quota_free(struct quota *quota)
{
  if (!quota)
    return NULL;
  assert(quota->users.size == 0);
  free(quota);
  return NULL;
}

static struct quota_user *find_user(const struct quota *quota, uint32_t realm, uint32_t uid)
{
  struct quota_key key = {realm, uid};
  struct dlp_tree_node *node = dlp_tree_find(&quota->users, &key);

  return node ? DLP_CONTAINER(node, struct quota_user, node) : NULL;
}

static struct quota_user *new_user(struct quota *quota, uint32_t realm, uint32_t uid)
{
  struct quota_user *user = calloc(1, sizeof(*user));

  if (!user)
    return NULL;
  user->quota = quota;
  user->key = (struct quota_key){realm, uid};
  dlp_tree_insert(&quota->users, &user->key, &user->node);
  return user;
}

static bool fits(const struct quota *quota, const struct quota_sum *used,
                 const struct quota_sum *sum, struct quota_refusal *refusal)
{
  for (size_t i = 0; i < QUOTA_N_SLOTS; i++) {
    uint64_t after;

    if (sum->of[i] == 0)
      continue;
    if (dlp_add_u64(used->of[i], sum->of[i], &after) && after <= quota->limits.of[i])
      continue;
    if (refusal)
      *refusal = (struct quota_refusal){
          .slot = (enum quota_slot)i,
          .limit = quota->limits.of[i],
          .used = used->of[i],
          .wanted = sum->of[i],
      };
    return false;
  }
  return true;
}

static void add(struct quota_sum *to, const struct quota_sum *sum)
{
  for (size_t i = 0; i < QUOTA_N_SLOTS; i++)
    to->of[i] += sum->of[i];
}

static void subtract(struct quota_sum *from, const struct quota_sum *sum)
{
  for (size_t i = 0; i < QUOTA_N_SLOTS; i++) {
    assert(from->of[i] >= sum->of[i]);
    from->of[i] -= sum->of[i];
  }
}

static struct quota_sum sum_of(const struct quota_charge *charge)
{
  struct quota_sum sum = {.of = {[QUOTA_BYTES] = charge->bytes, [QUOTA_HEAP] = charge->heap}};

  for (size_t i = QUOTA_SEGMENTS; i < QUOTA_HEAP; i++)
    sum.of[i] = charge->counts[i - QUOTA_SEGMENTS];
  return sum;
}

static void set_sum(struct quota_charge *charge, const struct quota_sum *sum)
{
  charge->bytes = sum->of[QUOTA_BYTES];
  charge->heap = (uint32_t)sum->of[QUOTA_HEAP];
  for (size_t i = QUOTA_SEGMENTS; i < QUOTA_HEAP; i++)
    charge->counts[i - QUOTA_SEGMENTS] = (uint8_t)sum->of[i];
}

/* What one payment can tell. */
static bool is_payable(const struct quota_sum *paid, const struct quota_sum *sum,
                       struct quota_refusal *refusal)
{
  for (size_t i = QUOTA_SEGMENTS; i < QUOTA_N_SLOTS; i++) {
    uint64_t limit = i == QUOTA_HEAP ? UINT32_MAX : UINT8_MAX;
    if (sum->of[i] <= limit - paid->of[i])
      continue;
    if (refusal)
      *refusal = (struct quota_refusal){
          .slot = (enum quota_slot)i, .limit = limit, .used = paid->of[i], .wanted = sum->of[i]};
    return false;
  }
  return true;
}

int quota_charge(struct quota *quota, struct quota_charge *charge, uint32_t realm, uint32_t uid,
                 const struct quota_sum *sum, struct quota_refusal *refusal)
{
  struct quota_user *user = charge->user ? charge->user : find_user(quota, realm, uid);
  struct quota_sum nothing = {0}, paid = sum_of(charge);

  assert(!charge->user || (charge->user->key.realm == realm && charge->user->key.uid == uid));
  if (!is_payable(&paid, sum, refusal) || !fits(quota, user ? &user->used : &nothing, sum, refusal))
    return QUOTA_E_EXCEEDED;
  if (!user) {
    user = new_user(quota, realm, uid);
    if (!user)
      return -ENOMEM;
  }
  if (!charge->user) {
    charge->user = user;
    user->n_charges++;
  }
  add(&paid, sum);
  set_sum(charge, &paid);
  add(&user->used, sum);
  add(&quota->total, sum);
  return 0;
}

void quota_charge_less(struct quota_charge *charge, const struct quota_sum *sum)
{
  struct quota_sum paid = sum_of(charge);

  subtract(&paid, sum);
  set_sum(charge, &paid);
  subtract(&charge->user->used, sum);
  subtract(&charge->user->quota->total, sum);
}

void quota_charge_deinit(struct quota_charge *charge)
{
  struct quota_user *user = charge->user;
  struct quota_sum paid = sum_of(charge);

  if (!user)
    return;
  subtract(&user->used, &paid);
  subtract(&user->quota->total, &paid);
  *charge = (struct quota_charge){0};
  if (--user->n_charges > 0)
    return;
  dlp_tree_remove(&user->quota->users, &user->node);
  free(user);
}

struct quota_sum quota_used(const struct quota *quota, uint32_t realm, uint32_t uid)
{
  const struct quota_user *user = find_user(quota, realm, uid);

  return user ? user->used : (struct quota_sum){0};
}

struct quota_sum quota_total(const struct quota *quota)
{
  return quota->total;
}

const char *quota_slot_name(enum quota_slot slot)
{
  static const char *const names[QUOTA_N_SLOTS] = {
      [QUOTA_BYTES] = "bytes",   [QUOTA_SEGMENTS] = "segments", [QUOTA_TENSORS] = "tensors",
      [QUOTA_LEASES] = "leases", [QUOTA_SESSIONS] = "sessions", [QUOTA_HEAP] = "heap",
  };

  return names[slot];
}
