/* request: a file request, with everything that its work needs, independent of client, server and loop.
 *
 * The work runs on a thread of the server, or in an fs helper, which fills in the same struct. All functions may block.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "fsop/quick.h"
#include "proto/method.h"
#include "wire/jsonw.h"

#include <sys/stat.h>

struct journal;

struct file_request {
        const struct method *method; /* NULL: the request opens a file (file_open) */
        void *params;
        const struct sandbox_context *sandbox; /* NULL: none */
        bool is_change;                        /* or asks about changes: the sandbox is planned for them */
        struct arena *arena;
        struct journal *journal; /* NULL when the server has none */
        size_t max_message;      /* the largest message that the client accepts */
        const char *error_data;  /* set by `run` when it fails: members for error.data; or NULL */
};

/* The methods that clients can call. */
extern const struct method file_methods[];
extern const size_t file_method_count;
/* The work of capabilityRoots/discoverV1 on one root. Clients cannot call it by name. */
extern const struct method file_discover_root;
/* Finds one of file_methods, or file_discover_root, by its name; NULL when there is none. */
NODISCARD const struct method *file_method_find(struct slice name);

/* How the loop answers without a thread (fsop/quick.h). Unless the result is QUICK_DONE nothing was written. */
struct file_quick {
        enum quick_answer (*run)(const void *params, struct quick *q, struct jsonw *w);
        /* Which path a thread must try, so that the loop learns whether it can answer such requests. */
        void (*target)(const void *params, struct slice *ret_path, bool *ret_follow, bool *ret_reads);
};

/* How to open a file whose descriptor is read or written later. */
struct file_open {
        struct slice path;
        int mode; /* enum fs_open_mode, or FS_OPEN_LOOK */
        bool follows;
        bool wants_lock; /* see file_open */
};
/* With `wants_lock`, fails with EAGAIN for a file that somebody else has open with a lock, and when the path leads to another file
 * by the time the lock is there. The lock lasts as long as the descriptor. This waits for the lock for at most
 * LIMIT_HANDLE_LOCK_MS, because a connection that has just ended may still hold it. */
NODISCARD int file_open(const struct file_open *how, int *ret_fd, struct stat *ret_st, struct err *err);
