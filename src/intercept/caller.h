/* caller: the process that wants to execute a program, as the broker reads it while the process waits in the kernel.
 *
 * A caller is known by the number of its notification. The pid of a thread that has died can belong to another process; so what was read
 * counts only if the notification is still valid afterwards (caller_is_there), or if the answer to it succeeds.
 *
 * Everything that was read is a copy: a process that shares the caller's memory can change the original at any time.
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"
#include "base/slice.h"
#include "intercept/proc_text.h"

#include <linux/seccomp.h>
#include <sys/stat.h>

struct wrapped;

struct caller {
        struct wrapped *wrapped; /* the caller is a wrapper (wrapped.h); NULL: it waits inside of execve */
        int listener;            /* borrowed */
        uint64_t id;
        pid_t thread;
        struct proc_status status;

        /* The arguments of execve or execveat, as they were passed. */
        bool is_at;
        int dir, flags;
        uint64_t file_at, argv_at, env_at;

        struct buf text;      /* the path, with a NUL, as it was passed */
        struct buf argv_text; /* all arguments, each with its NUL */
        struct slice *argv;   /* in argv_text */
        size_t argc, argv_room;

        struct buf
                file;   /* what is decided about: the path; for execveat, behind the path of its descriptor */
        struct buf cwd; /* absolute; empty until caller_read_cwd */
};

#define CALLER_INIT                                                          \
        ((struct caller){ .text = BUF_INIT(8192),                            \
                          .argv_text = BUF_INIT(LIMIT_INTERCEPT_EXEC_BYTES), \
                          .file = BUF_INIT(16384),                           \
                          .cwd = BUF_INIT(8192) })
void caller_release(struct caller *c);

/* Takes the notification, and reads what a decision needs: path, arguments, and the cwd if the path is relative. Returns 0, or the -errno
 * with which execve is to fail: as the kernel's would where the caller is at fault, -EACCES where its memory may not be read. */
NODISCARD int caller_read(struct caller *c, int listener, const struct seccomp_notif *notification);
/* Sets `argv` to the arguments in argv_text. */
void caller_argv_slice(struct caller *c);
NODISCARD int caller_read_status(struct caller *c);
int caller_read_cwd(struct caller *c);
/* Appends the environment to *text, each string with its NUL, and returns the number of strings; or -errno. */
NODISCARD ssize_t caller_read_env(const struct caller *c, struct buf *text);
/* Returns whether the file that the caller executes now is this one. */
NODISCARD bool caller_runs(const struct caller *c, dev_t dev, ino_t ino);
NODISCARD int caller_stat_exe(const struct caller *c, struct stat *ret);
/* Returns whether the caller still waits for an answer. */
NODISCARD bool caller_is_there(const struct caller *c);
/* Opens a pidfd of the caller's process. Returns it; -ESRCH when the caller does not wait any more; or another -errno. */
NODISCARD int caller_open(const struct caller *c);
/* Returns whether another task that may run now can write to the memory of the caller. If that cannot be found out: true. */
NODISCARD bool caller_is_shared(const struct caller *c);
/* Looks at the program, from the caller's place. Returns 0 if it may be there; *ret has st_ino 0 if that could not be found out. Else
 * returns the -errno with which execve would fail. */
NODISCARD int caller_look(const struct caller *c, struct stat *ret);

/* Answers. Both return 0; -ENOENT when the caller does not wait any more; or another -errno. */
NODISCARD int caller_continue(const struct caller *c);
int caller_fail(const struct caller *c, int error); /* error: -errno */

/* Reads /proc/THREAD/NAME into *ret, up to its ceiling. Returns 0 or -errno. */
NODISCARD int caller_proc_read(pid_t thread, const char *name, struct buf *ret);
