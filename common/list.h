#ifndef DLPACKD_COMMON_LIST_H
#define DLPACKD_COMMON_LIST_H

/*
 * Intrusive doubly linked list. A link that is on no list points at itself, so
 * removing twice is harmless and "is it on a list?" has an answer.
 */

#include <stdbool.h>
#include <stddef.h>

struct dlp_list {
  struct dlp_list *next, *previous;
};

#define DLP_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void dlp_list_init(struct dlp_list *list)
{
  list->next = list->previous = list;
}

static inline bool dlp_list_empty(const struct dlp_list *list)
{
  return list->next == list;
}

static inline void dlp_list_insert_before(struct dlp_list *link, struct dlp_list *at)
{
  link->previous = at->previous;
  link->next = at;
  at->previous->next = link;
  at->previous = link;
}

static inline void dlp_list_append(struct dlp_list *list, struct dlp_list *link)
{
  dlp_list_insert_before(link, list);
}

static inline void dlp_list_remove(struct dlp_list *link)
{
  link->previous->next = link->next;
  link->next->previous = link->previous;
  dlp_list_init(link);
}

/* The element may be removed within the loop; others may not. */
#define dlp_list_for_each(link, list)                                                   \
  for (struct dlp_list *link = (list)->next, *link##_next = link->next; link != (list); \
       link = link##_next, link##_next = link->next)

#endif
