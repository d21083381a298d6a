/* slot: the spawner's memory for one command, and the table of all slots.
 *
 * A slot lies at the top of a mapping of its own, above the two stacks that its keeper and the keeper's child run on:
 *
 *     room for the keeper's walks | guard | child's stack | keeper's stack | struct slot
 *
 * The mapping is shared, so that a forked keeper sees the same struct. The strings of the order are elsewhere: in a pooled
 * buffer into which the packet was received, or, when they came in a memfd, in a mapping for this command only. The keeper
 * frees their memory as soon as execve is over, so a running command keeps only its slot.
 */
#pragma once

#include "base/compat.h"
#include "base/list.h"
#include "base/map.h"
#include "keeper/keeper_shared.h"
#include "keeper/spawn_msg.h"

/* A buffer for the strings of a start order. */
struct order_buffer {
        struct list link;      /* slots::buffers */
        _Atomic(void *) owner; /* the slot that reads it; NULL = free */
        bool is_used;          /* more than its first page is in use */
        struct order_strings strings;
};

struct slot {
        struct list link;            /* slots::live or ::unused */
        struct order_buffer *buffer; /* where the strings were received; may belong to another slot by now */
        pid_t pid;                   /* the pid of the keeper; -1 when there is none */
        bool is_killed;              /* the keeper was told to end */
        struct image *image;         /* the mapped image of the sandbox, or NULL */
        struct net *net;             /* the network of the sandbox, which the spawner owns; or NULL */
        bool is_prebuilt;            /* the keeper never had a command, and so has no number */
        bool is_holder;   /* the command was ended because it kept the server waiting (spawner_held.c) */
        uint32_t held_ms; /* how long the command kept the server waiting, as spawner_held.c counts */
        bool is_orphaned; /* the keeper was killed: SPAWN_GONE is sent when its children are gone */
        struct keeper keeper;
};

struct slots {
        size_t walk_bytes, guard_bytes, bytes; /* sizes of the parts of a mapping, and of all of it */
        struct list live, unused, buffers;
        size_t unused_count;
        struct map by_number, by_pid; /* the slots of `live` */
};

void slots_init(struct slots *t);
NODISCARD struct slot *slots_find(const struct slots *t, uint32_t number);
NODISCARD struct slot *slots_find_pid(const struct slots *t, pid_t pid);

/* Returns a free buffer to receive the next packet into. NULL when memory is out. */
NODISCARD struct order_buffer *slots_buffer(struct slots *t);

/* Returns a clean slot that is not in the table yet, or NULL. */
NODISCARD struct slot *slot_new(struct slots *t);
/* Takes the slot out of the table. Only when no process runs on its stacks: the keeper was reaped, and so was a child that had
 * not reached execve. */
void slot_free(struct slots *t, struct slot *slot);

/* Fills the strings of keeper.order from the packet in `r`, or from a memfd, which the caller closes. From here on the slot owns
 * the strings. Return 0 or -errno. */
NODISCARD int slot_take_buffer(struct slot *slot, const struct spawn_order *order, struct order_buffer *r);
NODISCARD int slot_take_memfd(struct slot *slot, const struct spawn_order *order, int fd);
void slot_drop_strings(struct slot *slot);
/* slot_enter puts a slot into the table, once number and pid are set; slot_forget_pid is called when the keeper has been reaped. */
void slot_enter(struct slots *t, struct slot *slot);
void slot_forget_pid(struct slots *t, struct slot *slot);
/* Enters the slot of a prebuilt sandbox whose keeper was killed. */
void slot_enter_orphan(struct slots *t, struct slot *slot);
