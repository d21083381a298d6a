/* fs_view: the process that has bwrap build the view of one fs helper, and what an fs helper runs. */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

struct image;
struct verify_spaces;

/* What an fs helper runs. An fs helper is a copy of the spawner in the namespaces of an image. It runs a function in place of a
 * command, and ends when its socket is closed. Both functions are the server's; they run in a copy of the spawner's memory, and
 * may use the heap. */
struct spawn_fs_helper {
        /* `outside`: the namespaces of the machine, when bwrap has built the view and the helper has to check it; else NULL. */
        NORETURN void (*run)(int socket, struct image *image, const struct verify_spaces *outside);
        /* Called when the helper could not be made. `step`: enum enter_step, or -1 for the namespaces. */
        void (*failed)(int socket, int step, int os_errno, uint32_t op);
};

struct fs_view_order {
        const struct spawn_fs_helper *fs_helper;
        pid_t spawner;
        bool is_forking; /* the machine does not let processes share memory (keeper::is_fork) */
        int socket;      /* the fs helper's end */
        struct image *image;
        const int *programs; /* bwrap and farhand-init */
        int fence;           /* the user namespace in which bwrap runs (spawner/fence.h), or -1 */
};

/* Has bwrap build the view, makes the fs helper in it, and ends when bwrap or the fs helper ends. Runs in a copy of the spawner. */
NORETURN void fs_view_run(const struct fs_view_order *order);
