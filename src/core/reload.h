/* reload: reads the configuration and the secrets again at a SIGHUP, and applies what may change while clients are connected.
 *
 * Files are read on a thread: they may be on a file system that does not answer. A configuration with an error changes
 * nothing. Connections, sessions and processes stay; new limits and secrets apply from then on.
 *
 * SIGHUP may also mean that the terminal is gone. Then a server that was started on a terminal ends.
 */
#pragma once

#include "core/config.h"
#include "loop/pool.h"

struct reload {
        struct pool *pool;
        struct config *live;
        const struct config_source *source;
        bool had_terminal; /* the server was started on a terminal */
        bool is_reading;   /* a thread is reading the configuration */
        bool is_wanted;    /* a signal came while a thread was reading: read again */
};

void reload_init(struct reload *r, struct pool *pool, struct config *live,
                 const struct config_source *source);

/* Handles a SIGHUP. Returns false when the terminal of the server is gone: then the caller ends the server. */
NODISCARD bool reload_hang_up(struct reload *r);
