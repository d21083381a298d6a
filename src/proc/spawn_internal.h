/* spawn_internal: between the files of the server's end of the spawner: which commands there are (spawn.c), and the orders
 * on their way (spawn_packet.c). */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "proc/spawn_msg.h"

struct spawner {
        const struct spawn_events *events;
        void *arg;
        int socket;
        pid_t pid;
        bool is_lost;
        bool has_leaves; /* there may be cgroups of its commands */
        size_t inline_max;
        struct map commands;
        struct list queue; /* packets that the socket did not take */
        char *room;        /* SPAWN_INLINE_MAX: the strings of the order at hand */
};

/* ---- spawn_packet.c ---- */

/* Sends it or queues it, or drops it when the spawner was lost. Fails only when a descriptor cannot be duplicated for the
 * queue. */
int packet_put(struct spawner *s, const struct spawn_order *order, struct slice strings, const int fds[],
               size_t fd_count);
void packets_send(struct spawner *s); /* what is queued, as far as the socket takes it */
void packets_clear(struct spawner *s);
