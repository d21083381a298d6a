/* list: doubly linked, intrusive, circular.
 *
 * The head and a link are the same type. A link that is on no list points at itself, so list_remove may be called
 * twice. The comment beside each link says whose list it is on: `struct list link;  (session::processes)`.
 */
#pragma once

#include "base/compat.h"

struct list {
        struct list *prev, *next;
};

#define LIST_INIT(name) ((struct list){ &(name), &(name) })

static inline void list_init(struct list *l)
{
        l->prev = l->next = l;
}

static inline bool list_is_empty(const struct list *l)
{
        return l->next == l;
}

static inline bool list_is_linked(const struct list *l)
{
        return l->next && l->next != l;
}

static inline void list_append(struct list *head, struct list *link)
{
        link->prev = head->prev;
        link->next = head;
        head->prev->next = link;
        head->prev = link;
}

static inline void list_prepend(struct list *head, struct list *link)
{
        list_append(head->next, link);
}

static inline void list_remove(struct list *link)
{
        link->prev->next = link->next;
        link->next->prev = link->prev;
        list_init(link);
}

#define list_entry(link, type, member) container_of((link), type, member)
#define list_first(head, type, member) (list_is_empty(head) ? NULL : list_entry((head)->next, type, member))

/* `it` may be removed from the list in the body; its neighbour may not. */
#define list_each(it, head, member)                          \
        for (struct list *l_ = (head)->next, *n_ = l_->next; \
             l_ != (head) && ((it) = container_of(l_, typeof(*(it)), member), true); l_ = n_, n_ = l_->next)
