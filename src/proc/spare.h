/* spare: the next sandbox, made before it is needed.
 *
 * A keeper with its init, in namespaces of its own, the view built but for what only the command's plan can tell: so much of a
 * sandbox is the same for one command as for the next (image_is_alike), and the kernel takes long to make it. Once a command
 * has started, the next of its kind is made while it runs. It waits for an order, which goes to the init directly; from
 * then on it is a keeper as any other (box_ahead.c). It is used once, and nobody but our own code was ever in there.
 *
 * There is one at most. Who finds none, or none of its kind, is started without. It goes when nobody wants it for a while,
 * and at once when something is mounted or unmounted on the machine: its view would be of yesterday, and would keep busy what
 * somebody wants to take away.
 */
#pragma once

#include "sandbox/image.h"

#include <sys/types.h>

#define SPARE_IDLE_MS 30000 /* then nobody is likely to want it, and its memory is better used otherwise */

struct net;
struct slot;
struct spawn_order;
struct state;

/* What commands must have in common to get each other's. */
struct spare_kind {
        struct image head; /* all zero: there was none */
        uint64_t whose;    /* matters where a network is used again */
};

struct spare {
        struct slot *slot; /* of its keeper, in no table; NULL: there is none */
        struct spare_kind kind;
        struct spare_kind next; /* of the last command */
        int socket;             /* to its init */
        int mounts;             /* tells of the machine's; -1: not asked yet */
        bool is_wanted;
        bool is_dropped;  /* told to end */
        uint64_t used_ms; /* when the last command was started that could use one */
};

void spare_init(struct spare *p);
/* The kind of the command that is started. Whether its keeper shall tell (keeper::tells), so that a spare is made then. */
NODISCARD bool spare_note(struct state *s, const struct spawn_order *order, const struct image *image);
/* A command has started. Failing is nothing to be told of: the next start tries for itself, and tells. */
void spare_want(struct state *s);
/* Starts the command in the spare: 0; then the image is its. -ENOENT: there is none for it. Or another -errno: it may have run. */
NODISCARD int spare_start(struct state *s, const struct spawn_order *order, struct image *image, int fds[]);
/* Ends it, when there is one. */
void spare_drop(struct state *s);
/* For how long it may still be kept, or a network for it (nets.h); -1: there is neither. */
NODISCARD int spare_wait_ms(const struct state *s);
/* Ends both when that time is over. */
void spare_tick(struct state *s);
/* A command has gone: what it leaves may be of use to the next. */
void spare_recover(struct state *s, struct net *net);
NODISCARD bool spare_is(const struct spare *p, pid_t pid);
/* Its keeper was reaped. `is_well`: it has ended by itself, and left nobody. */
void spare_reaped(struct state *s, bool is_well);
