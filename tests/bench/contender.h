/* contender: a server under measurement, as a child process of ours.
 *
 * Ours and the reference are started the same way, listen on a loopback port of the kernel's choice and say which on
 * stdout. What they write to stderr goes to a file in a directory of the benchmark's own, which is removed at the end.
 * A server never outlives the benchmark, however that ends.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <sys/types.h>

enum who { WHO_OURS, WHO_REFERENCE, WHO_MACHINE, WHOS };

struct contender {
        enum who who;
        const char *program;
        const char *home; /* directory for stderr, and for the files of the reference */
        pid_t pid;        /* 0 = does not run */
        int stdout_fd;
        uint16_t port;
};

void contender_init(struct contender *c, enum who who, const char *program, const char *home);

/* Starts the server and waits, for a bounded time, until it has printed its URL. On failure nothing runs. */
NODISCARD int contender_start(struct contender *c, struct err *err);
void contender_stop(struct contender *c); /* kills; fine when it does not run */

/* Returns whether SIGINT or SIGTERM has come; from then on every wait ends with -EINTR. */
bool is_interrupted(void);
void interrupts_catch(void);

/* Returns the path of a program that was built with this one. */
NODISCARD char *beside_bench(const char *name);

/* dir_make makes a new directory in `parent` and returns its path, or NULL with err filled. dir_remove removes it with all its
 * files. */
NODISCARD char *dir_make(const char *parent, struct err *err);
void dir_remove(const char *dir);
