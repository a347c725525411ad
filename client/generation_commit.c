/* What waits in the heap gets its memory; then all of it is published. */

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/error.h"
#include "client/generation_private.h"
#include "client/publish_options.h"

/* Room for what a PUBLISH has besides its adds. */
#define PUBLISH_OVERHEAD 256

/* ---- staged tensors ---- */

static int staged_give_block(struct dlc_generation *generation, struct dlc__entry *entry,
                             struct dlc__block *block, struct dlc_error *reterr)
{
  int r = dlc__generation_join_epoch(generation, block->epoch, reterr);

  if (r == 0 && entry->add.place.size > 0)
    r = dlc__block_write(block, entry->staged, entry->add.place.size, reterr);
  if (r < 0) {
    dlc__block_unref(block);
    return r;
  }
  atomic_store(&block->state, DLC__BLOCK_ADDED);
  dlc__entry_set_place(entry, block, entry->add.place.size, entry->add.place.first);
  free(DLP_TAKE(entry->staged));
  dlp_list_remove(&entry->staged_link);
  return 0;
}

/* The staged entries at the front that are of one owner. */
static size_t staged_collect(struct dlc_generation *generation, struct dlc__entry **entries,
                             struct msg_block *wanted)
{
  size_t n = 0;

  dlp_list_for_each (at, &generation->staged) {
    struct dlc__entry *entry = DLP_CONTAINER(at, struct dlc__entry, staged_link);

    if (n == DLC__BLOCKS_MAX || (n > 0 && entry->domain.owner != entries[0]->domain.owner))
      break;
    entries[n] = entry;
    wanted[n++] = (struct msg_block){entry->wanted, dlc__block_flags(&entry->domain, false)};
  }
  return n;
}

/* One request's worth of staged tensors gets its memory. */
static int staged_flush_some(struct dlc_generation *generation, struct dlc_error *reterr)
{
  struct dlc__entry *entries[DLC__BLOCKS_MAX];
  struct msg_block wanted[DLC__BLOCKS_MAX];
  struct dlc__block *blocks[DLC__BLOCKS_MAX];
  size_t n = staged_collect(generation, entries, wanted);
  int r;

  assert(n > 0);
  r = dlc__blocks_allocate(generation->client, &entries[0]->domain, wanted, n, blocks, reterr);
  if (r < 0)
    return r;
  for (size_t i = 0; i < n; i++) {
    if (r == 0)
      r = staged_give_block(generation, entries[i], blocks[i], reterr);
    else
      dlc__block_unref(blocks[i]);
  }
  return r;
}

int dlc__generation_flush(struct dlc_generation *generation, struct dlc_error *reterr)
{
  while (!dlp_list_empty(&generation->staged)) {
    int r = staged_flush_some(generation, reterr);

    if (r < 0)
      return r;
  }
  generation->n_staged = 0;
  generation->staged_bytes = 0;
  return 0;
}

/* ---- commit ---- */

static int commit_prepare(struct dlc_generation *generation, struct dlc_error *reterr)
{
  dlp_list_for_each (at, &generation->entries) {
    struct dlc__entry *entry = DLP_CONTAINER(at, struct dlc__entry, link);
    int r = entry->hold ? dlc__block_prepare(entry->block, reterr) : 0;

    if (r < 0)
      return r;
  }
  return 0;
}

/* How the sending went. */
struct commit {
  uint64_t version;
  bool sent;     /* something may have reached the daemon */
  bool answered; /* the last packet that was sent has an answer */
};

static int commit_send(struct dlc_generation *generation, const struct msg_add *adds, size_t n,
                       bool last, struct commit *commit, struct dlc_error *reterr)
{
  struct dlc_client *client = generation->client;
  dlc__auto_call struct dlc__call call = {.needs_epoch = generation->epoch};
  struct dlc__domain domain = dlc__publish_domain(&generation->options, MSG_OWNER_SELF);
  struct msg_request request = {.type = MSG_PUBLISH,
                                .u.publish = {.key = generation->key,
                                              .commit = last,
                                              .lifetime = domain.lifetime,
                                              .mode = domain.mode,
                                              .gid = domain.gid,
                                              .ttl_ms = last ? generation->ttl_ms : 0,
                                              .n_adds = n,
                                              .adds = adds}};
  struct dlc__reply *reply;
  int r =
      dlc__call_run(client->transport, &call, &request, dlc__client_deadline(client, 0), reterr);

  commit->sent = commit->sent || call.has_sent;
  if (generation->epoch == 0)
    generation->epoch = call.epoch;
  commit->answered = call.done || !call.has_sent;
  if (r < 0)
    return r;
  reply = dlc__call_reply(&call, MSG_PUBLISHED, reterr);
  if (!reply)
    return -DLC_E_PROTOCOL;
  commit->version = reply->decoded.reply.u.published.version;
  return 0;
}

/* Packs what fits a packet, from *at on. Return: how many. */
static size_t commit_pack(struct dlc_generation *generation, struct dlp_list **at,
                          struct msg_add *adds)
{
  size_t size = PUBLISH_OVERHEAD;
  size_t n = 0;

  for (; *at != &generation->entries && n < DLP_BATCH_MAX; *at = (*at)->next) {
    const struct dlc__entry *entry = DLP_CONTAINER(*at, struct dlc__entry, link);

    size += codec_add_size(&entry->add);
    if (n > 0 && size > DLP_PACKET_MAX)
      break;
    adds[n++] = entry->add;
  }
  return n;
}

static int commit_send_all(struct dlc_generation *generation, struct commit *commit,
                           struct dlc_error *reterr)
{
  dlp_auto_free struct msg_add *adds =
      (struct msg_add *)malloc(DLP_BATCH_MAX * sizeof(struct msg_add));
  struct dlp_list *at = generation->entries.next;

  commit->answered = true;
  if (!adds)
    return dlc__error_no_memory(reterr);
  /* A version before the last packet: all of it was committed under this key before. */
  while (at != &generation->entries && commit->version == 0) {
    size_t n = commit_pack(generation, &at, adds);
    int r = commit_send(generation, adds, n, at == &generation->entries, commit, reterr);

    if (r < 0)
      return r;
  }
  return commit->version != 0 ? 0
                              : dlc__error_set(reterr, DLC_E_PROTOCOL, 0,
                                               "the daemon gave the publication no version");
}

/* What was staged there is the session's again. Return: is that certain? */
static bool commit_abort(struct dlc_generation *generation)
{
  struct dlc_client *client = generation->client;
  dlc__auto_call struct dlc__call call = {.needs_epoch = generation->epoch};
  struct msg_request request = {.type = MSG_ABORT, .u.abort = {.key = generation->key}};

  return dlc__call_run(client->transport, &call, &request, dlc__client_deadline(client, 0), NULL) ==
         0;
}

/* It may be visible by now, so it may not change any more. */
static void commit_protect(struct dlc__entry *entry)
{
  dlc__block_protect(entry->block);
  if (entry->domain.is_mutable)
    return;
  entry->hold->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (entry->hold->sole)
    entry->hold->sole->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
}

static void commit_failed(struct dlc_generation *generation, const struct commit *commit)
{
  bool ours = !commit->sent || (commit->answered && commit_abort(generation));

  dlp_list_for_each (at, &generation->entries) {
    struct dlc__entry *entry = DLP_CONTAINER(at, struct dlc__entry, link);

    if (!entry->block)
      continue;
    atomic_store(&entry->block->state, ours ? DLC__BLOCK_OURS : DLC__BLOCK_UNKNOWN);
    if (entry->hold && ours)
      dlc__block_restore(entry->block);
    else if (entry->hold)
      commit_protect(entry);
  }
}

/* What its publisher knows of it, without asking. */
static struct dlc_info *commit_record(const struct dlc_generation *generation,
                                      const struct dlc__entry *entry, uint64_t version)
{
  uint32_t own_uid = dlc__client_uid(generation->client);
  const struct dlc__reader reader = {generation->client->name_space, own_uid};
  struct msg_tensor tensor = {
      .name = entry->add.name,
      .version = version,
      .spec = entry->add.spec,
      .place = entry->add.place,
      .flags = (entry->domain.is_mutable ? MSG_TENSOR_MUTABLE : 0) |
               (entry->domain.is_frozen ? MSG_TENSOR_FROZEN : 0),
      .backend = entry->domain.backend,
      .lifetime = entry->domain.lifetime,
      .ttl_ms = entry->domain.lifetime == MSG_LIFETIME_TTL ? generation->ttl_ms : 0,
      .mode = entry->domain.mode,
      .gid = entry->domain.gid == MSG_OWNER_SELF ? getgid() : entry->domain.gid,
      .publisher_uid = own_uid,
      .publisher_pid = (int32_t)getpid(),
      .created_us = version,
      .n_attributes = entry->add.n_attributes,
      .attributes = entry->add.attributes,
  };

  if (tensor.name.owner == MSG_OWNER_SELF)
    tensor.name.owner = own_uid;
  return dlc__record_new(&reader, &tensor);
}

static void commit_succeeded(struct dlc_generation *generation, uint64_t version)
{
  dlp_list_for_each (at, &generation->entries) {
    struct dlc__entry *entry = DLP_CONTAINER(at, struct dlc__entry, link);

    if (!entry->block)
      continue;
    if (entry->hold)
      commit_protect(entry);
    dlc__block_published(entry->block, entry->add.keep);
    if (!entry->hold)
      continue;
    entry->hold->info = commit_record(generation, entry, version);
  }
}

/* May all that waits travel within the commit itself, in one packet? */
static bool commit_fits_inline(const struct dlc_generation *generation)
{
  size_t size = PUBLISH_OVERHEAD;
  size_t n = 0;

  dlp_list_for_each (at, &generation->entries) {
    const struct dlc__entry *entry = DLP_CONTAINER(at, struct dlc__entry, link);
    struct msg_add add = entry->add;

    if (entry->staged && (add.place.size > DLP_INLINE_MAX || !entry->may_be_inline))
      return false;
    add.payload = entry->staged;
    size += codec_add_size(&add);
    if (++n > DLP_BATCH_MAX || size > DLP_PACKET_MAX)
      return false;
  }
  return true;
}

/* The bytes that wait go along, or get memory of their own before. */
static int commit_stage(struct dlc_generation *generation, struct dlc_error *reterr)
{
  if (!commit_fits_inline(generation))
    return dlc__generation_flush(generation, reterr);
  dlp_list_for_each (at, &generation->staged) {
    struct dlc__entry *entry = DLP_CONTAINER(at, struct dlc__entry, staged_link);

    entry->add.payload = entry->staged;
  }
  return 0;
}

int dlc__generation_commit(struct dlc_generation *generation, uint64_t *ret_version,
                           struct dlc_error *reterr)
{
  struct commit commit = {.answered = true};
  int r = commit_stage(generation, reterr);

  if (r == 0)
    r = commit_prepare(generation, reterr);
  if (r == 0)
    r = commit_send_all(generation, &commit, reterr);
  /* The connection went with the answer: what was staged is given up, what was
   * committed is told again. */
  if (r == -DLC_E_DISCONNECTED && !commit.answered && commit_abort(generation))
    r = commit_send_all(generation, &commit, reterr);
  if (r < 0) {
    commit_failed(generation, &commit);
    return r;
  }
  commit_succeeded(generation, commit.version);
  if (ret_version)
    *ret_version = commit.version;
  return 0;
}
