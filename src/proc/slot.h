/* slot: the spawner's memory of one command, and the table of all of them.
 *
 * A slot lies at the top of a mapping of its own, above the two stacks that its keeper and the keeper's child run on:
 *
 *     room for the keeper's walks | guard | child's stack | keeper's stack | struct slot
 *
 * The mapping is shared, so that a forked keeper sees the same struct. Strings of the order are elsewhere: in a pooled
 * buffer into which the packet was received, or, when they came in a memfd, in a mapping for this one time. The keeper
 * gives their memory back as soon as execve is over, so a running command holds on to its slot only.
 */
#pragma once

#include "base/compat.h"
#include "base/list.h"
#include "base/map.h"
#include "proc/keeper.h"
#include "proc/spawn_msg.h"

/* A start order as it came in, and its strings as execve wants them. */
struct request {
        struct list link;      /* slots::requests */
        _Atomic(void *) owner; /* a slot, while it may be read; NULL = free */
        bool is_used;          /* its pages are more than its head */
        char bytes[SPAWN_INLINE_MAX];
        char *pointers[SPAWN_INLINE_MAX + 3]; /* a string has at least its NUL; three lists end in NULL */
};

struct slot {
        struct list link;        /* slots::live or ::spare */
        struct request *request; /* where the strings came in; may be somebody else's meanwhile */
        pid_t pid;               /* of the keeper; -1 when there is none */
        bool is_killed;          /* it was told to end */
        struct image *image;     /* of the sandbox, mapped; or NULL */
        struct net *net;         /* that the sandbox is in, of the spawner's; or NULL */
        bool is_spare;           /* it never had a command, and so no number */
        bool is_orphaned;        /* the keeper was killed: `gone` waits until what it left is gone */
        struct keeper keeper;
};

struct slots {
        size_t walk_bytes, guard_bytes, bytes; /* of a mapping, in this order; the last is all of it */
        struct list live, spare, requests;
        size_t spares;
        struct map by_number, by_pid; /* of `live` */
};

void slots_init(struct slots *t);
NODISCARD struct slot *slots_find(const struct slots *t, uint32_t number);
NODISCARD struct slot *slots_find_pid(const struct slots *t, pid_t pid);

/* A buffer that nobody uses, to receive the next packet into. NULL when memory is out. */
NODISCARD struct request *slots_request(struct slots *t);

/* A clean slot that is not in the table yet, or NULL. */
NODISCARD struct slot *slot_new(struct slots *t);
/* Takes it out of the table. Only when nobody runs on its stacks: the keeper is reaped, and so is a child that had not
 * reached execve. */
void slot_free(struct slots *t, struct slot *slot);

/* Fills keeper.order's strings from the packet in `r`, or from a memfd, which stays the caller's. From here on the
 * slot holds them. 0 or -errno. */
NODISCARD int slot_take_request(struct slot *slot, const struct spawn_order *order, struct request *r);
NODISCARD int slot_take_memfd(struct slot *slot, const struct spawn_order *order, int fd);
void slot_drop_strings(struct slot *slot);
/* The strings of a packet as lists; `pointers` has room for all of them and three NULLs. Raw. */
NODISCARD int slot_unpack(struct keeper_order *o, const struct spawn_order *order, char *bytes,
                          char **pointers);

/* Into the table, once number and pid are set; and out of the pids, when the keeper has been reaped. */
void slot_enter(struct slots *t, struct slot *slot);
void slot_forget_pid(struct slots *t, struct slot *slot);
/* Of a spare whose keeper was killed. */
void slot_enter_orphan(struct slots *t, struct slot *slot);
