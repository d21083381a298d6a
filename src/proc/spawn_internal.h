/* spawn_internal: what the files of the server's end of the spawner share: the commands (spawn.c), the orders made from them
 * (spawn_command.c), the orders on their way (spawn_packet.c), and the starts under way (spawn_pace.c). */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "keeper/spawn_msg.h"

struct packet;

/* A command from spawn_start to `gone`. */
struct spawned {
        bool is_started, is_ended; /* events that were called: each once, in this order */
        uint32_t number;
        struct packet *start;  /* the order that waits here, or is lent; NULL once it was sent */
        bool is_lent;          /* the order was sent, but the spawner may still return it */
        bool is_killed;        /* spawn_kill was called after the order was sent or lent */
        struct list pace_link; /* spawner::starting, while the command waits for a processor */
        uint64_t start_number; /* how many starts had been sent when its start was sent */
        uint64_t pace_ms;      /* when the start was sent, or, with has_begun, when execve was over */
        bool has_begun;        /* execve is over */
        bool is_hanging;       /* execve took, or takes, too long */
        struct list unsent;    /* spawner::unsent, when the start was given up before it was sent */
        int unsent_errno;      /* why the start was given up; else 0 */
        size_t unanswered;     /* signals that have no answer yet */
        uint32_t under_way;    /* signals that were sent and have no answer yet */
        struct list held;      /* struct held_signal: signals that wait to be sent */
};

struct spawner {
        const struct spawn_events *events;
        void *arg;
        int socket;
        pid_t pid;
        bool is_lost;
        bool has_leaves; /* there may be cgroups of its commands */
        size_t inline_max;
        struct map commands;
        struct list queue;    /* packets that wait for room in the socket, in their order */
        struct list refused;  /* starts whose descriptors the kernel does not pass on */
        uint64_t retry_at_ms; /* when to try the refused starts again */
        struct list lent;     /* starts whose descriptors the spawner opens by itself (keeper/lend.h) */
        struct list waiting;  /* starts that would overtake too many others */
        struct list starting; /* struct spawned: commands that wait for a processor, in their order */
        uint32_t hanging;     /* how many commands hang in their execve */
        uint64_t starts_sent; /* how many starts have been sent */
        struct list unsent;   /* struct spawned: given up before they were sent; `failed` has to be called */
        char *room;           /* SPAWN_INLINE_MAX bytes for the strings of an order */
};

/* ---- spawn.c ---- */

/* To be called when `c->start` was sent and will not be returned. Sends the signals that waited for that. */
void spawned_sent(struct spawner *s, struct spawned *c);
/* Drops `c->start`, which will not be sent. The next spawn_on_ready calls `failed`. */
void spawned_give_up(struct spawner *s, struct spawned *c, int os_errno);

/* ---- spawn_command.c ---- */

/* Fills the order, except is_in_memfd. Returns 0, or -E2BIG when the strings are longer than SPAWN_REQUEST_MAX. */
NODISCARD int command_describe(const struct command_spec *c, uint32_t number, struct spawn_order *ret);
/* Writes the strings to `at`, which has room for spawn_order::command.bytes bytes. */
void command_pack(const struct command_spec *c, char *at);
/* Writes the strings to a memfd. Returns its descriptor, or -errno. */
NODISCARD int command_memfd(const struct command_spec *c, size_t bytes);
/* Lists the descriptors of a start, in the order in which the spawner expects them; the caller still has to close them. `memfd`: -1
 * when there is none. Returns how many. */
NODISCARD size_t command_fds(const struct command_spec *c, const int stdio[static SPAWN_STDIO], int memfd,
                             int ret[static SPAWN_FDS_MAX]);

/* Lists the descriptors of bwrap and farhand-init, which the caller does not own. Returns how many: none when `bwrap` is NULL. */
NODISCARD size_t command_programs(const struct bwrap *bwrap, int ret[static SPAWN_PROGRAMS]);

/* ---- spawn_packet.c ---- */

/* Sends the order or queues it, or drops it when the spawner was lost. `c` is the command of a start, else NULL; c->start is set
 * when the start waits. Other orders overtake starts that were refused, or that wait for their turn. Fails only when a descriptor
 * cannot be duplicated for the queue. */
int packet_put(struct spawner *s, const struct spawn_order *order, struct slice strings, const int fds[],
               size_t fd_count, struct spawned *c);
void packet_drop(struct packet *p);
/* To be called when the spawner has returned a start, because it could not open the descriptors by itself (keeper/lend.h). */
void packet_returned(struct spawner *s, struct packet *p);
/* Sends what waits, as far as the socket and the kernel take it. Gives up starts that were refused for too long. */
void packets_send(struct spawner *s);
void packets_clear(struct spawner *s);

/* ---- spawn_pace.c ---- */

/* Returns whether another start may be sent. */
bool pace_may_start(const struct spawner *s);
/* To be called when the start of `c` is sent. */
void pace_sent(struct spawner *s, struct spawned *c);
/* To be called when the execve of the command is over. */
void pace_executed(struct spawner *s, struct spawned *c);
/* To be called when the command has ended or failed. May be called more than once. */
void pace_ended(struct spawner *s, struct spawned *c);
/* Finds out which commands have run long enough, and which hang in execve. */
void pace_tick(struct spawner *s);
/* Returns the time until pace_tick has to be called, while starts wait; -1: no start waits. */
int pace_wait_ms(const struct spawner *s);
