#include <assert.h>
#include <stdlib.h>

#include "client/outbox.h"

void dlc__outbox_init(struct dlc__outbox *outbox)
{
  outbox->bells = NULL;
  for (size_t i = 0; i < DLC__N_ONEWAYS; i++)
    dlp_list_init(&outbox->queues[i]);
}

static void outbox_drop(struct dlp_list *queue, size_t n)
{
  for (; n > 0 && !dlp_list_empty(queue); n--) {
    struct dlc__oneway *item = DLP_CONTAINER(queue->next, struct dlc__oneway, link);

    dlp_list_remove(&item->link);
    free(item->container);
  }
}

void dlc__outbox_clear(struct dlc__outbox *outbox)
{
  for (size_t i = 0; i < DLC__N_ONEWAYS; i++)
    outbox_drop(&outbox->queues[i], SIZE_MAX);
}

void dlc__outbox_put_consume(struct dlc__outbox *outbox, enum dlc__oneway_kind kind,
                             struct dlc__oneway *item)
{
  dlp_list_append(&outbox->queues[kind], &item->link);
}

static size_t outbox_fill(const struct dlp_list *queue, enum dlc__oneway_kind kind,
                          union dlc__outbox_batch *batch)
{
  size_t n = 0;

  for (const struct dlp_list *link = queue->next; link != queue && n < DLP_BATCH_MAX;
       link = link->next, n++) {
    const struct dlc__oneway *item = DLP_CONTAINER(link, struct dlc__oneway, link);

    if (kind == DLC__ONEWAY_FREE)
      batch->places[n] = item->u.place;
    else
      batch->segments[n] = item->u.segment;
  }
  return n;
}

bool dlc__outbox_peek(const struct dlc__outbox *outbox, union dlc__outbox_batch *batch,
                      struct msg_request *ret)
{
  size_t n = outbox->bells ? dlc__bells_peek(outbox->bells, batch->cells, DLP_BATCH_MAX) : 0;

  if (n > 0) {
    *ret = (struct msg_request){.type = MSG_RELEASE, .u.release = {n, batch->cells}};
    return true;
  }
  if (!dlp_list_empty(&outbox->queues[DLC__ONEWAY_FREE])) {
    n = outbox_fill(&outbox->queues[DLC__ONEWAY_FREE], DLC__ONEWAY_FREE, batch);
    *ret = (struct msg_request){.type = MSG_FREE, .u.free = {n, batch->places}};
    return true;
  }
  /* Last: a segment is forgotten after the leases in it were returned. */
  if (!dlp_list_empty(&outbox->queues[DLC__ONEWAY_FORGET])) {
    n = outbox_fill(&outbox->queues[DLC__ONEWAY_FORGET], DLC__ONEWAY_FORGET, batch);
    *ret = (struct msg_request){.type = MSG_FORGET, .u.forget = {n, batch->segments}};
    return true;
  }
  return false;
}

void dlc__outbox_sent(struct dlc__outbox *outbox, const struct msg_request *request)
{
  switch (request->type) {
  case MSG_RELEASE:
    dlc__bells_told(outbox->bells, request->u.release.cells, request->u.release.n_cells);
    break;
  case MSG_FREE:
    outbox_drop(&outbox->queues[DLC__ONEWAY_FREE], request->u.free.n_places);
    break;
  default:
    assert(request->type == MSG_FORGET);
    outbox_drop(&outbox->queues[DLC__ONEWAY_FORGET], request->u.forget.n_segments);
  }
}
