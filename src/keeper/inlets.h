/* inlets: the listening sockets of a sandbox's network, and how they get out of the sandbox.
 *
 *     command ── 127.0.0.1:3128 in a network of its own ── inlet ── whoever has the socket, outside
 *
 * A command with a managed network sees nothing but `lo`. The sockets that listen there belong to a process outside, which decides
 * what the command reaches. The keeper has them made when the network of the sandbox exists, sends them all in one message, and
 * keeps none; only then may the command be executed. So the command cannot take their addresses itself, no process of the sandbox
 * ever has their descriptors, and a connection tells by the socket on which it came whose it is.
 */
#pragma once

#include "base/compat.h"

#include <stdint.h>

#define INLETS_MAX 68

enum inlet_kind { INLET_TCP, INLET_UDP };

struct inlet {
        uint8_t kind;     /* enum inlet_kind */
        uint16_t port;    /* never 0 */
        uint32_t address; /* IPv4, in the byte order of the machine: 127.0.0.1 is INADDR_LOOPBACK */
};

/* Plain data: it travels with the order of a start. */
struct inlets {
        uint32_t count; /* 0: the command has none */
        struct inlet list[INLETS_MAX];
};

/* What the keeper sends. The descriptors of the sockets come with it, in the order of the list; they are close-on-exec and do not
 * block. */
struct inlets_message {
        uint32_t count;
};
