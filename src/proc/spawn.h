/* spawn: the server's end of the spawner, the small process that starts all commands.
 *
 *     server ── spawner ── keeper ── command
 *
 * The spawner is forked early and stays single-threaded. For each command it makes a keeper: a child sub-reaper that
 * starts the command, reports its exit, and, when told, kills everything below it until nothing is left. So every orphan
 * has an owner, an execve that hangs stops one keeper only, and when one of the four is killed, the rest of the tree ends,
 * too (docs/internals/spawner.md).
 *
 * Each command has a `number`, chosen by the caller and not used again before its `gone` event. All packets go over
 * one SEQPACKET socket; nothing here blocks. This module knows no loop: the caller watches spawn_fd() and calls spawn_on_ready().
 *
 * Events of one number come in this order: failed, gone; or started, then exited (once), with signalled in between
 * at any time, then gone. After `lost` every number is gone without further events.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "keeper/command.h"
#include "keeper/fs_view.h"

#include <sys/types.h>

struct spawner;

/* How many starts of programs below a command were decided, and how; zero when it is not intercepted. */
struct spawn_intercepted {
        uint64_t run, escalated, denied;
};

struct spawn_exit {
        int status;       /* as wait(2) gives it */
        uint64_t user_us; /* CPU time of the command's first process and of the children that it waited for */
        uint64_t system_us;
        uint64_t max_rss_bytes;
        struct spawn_intercepted intercepted;
        uint32_t met; /* bits of enum spawn_met: the limits that the command has met */
};

struct spawn_events {
        void (*started)(void *arg, uint32_t number, pid_t pid);
        /* The start has failed. `step` is a literal: "cwd", "exec", "pty", "stdio", "session", "fork", "limits", "namespaces",
         * "intercept", or a step of sandbox/enter.h; "descriptors" (ETOOMANYREFS) when they could not be handed over, because commands of this
         * user keep too many in flight. `op`: the operation of the sandbox's plan that failed, or ENTER_NO_OP. */
        void (*failed)(void *arg, uint32_t number, const char *step, int os_errno, uint32_t op);
        void (*exited)(void *arg, uint32_t number, const struct spawn_exit *exit);
        /* Answers each spawn_signal, in the order of the calls; os_errno is 0 when the signal was delivered or no process was
         * left. */
        void (*signalled)(void *arg, uint32_t number, int os_errno);
        /* Called just before `gone`: the spawner ended the tree, because the server waited for the lock of a pipe. May be NULL. */
        void (*held)(void *arg, uint32_t number);
        /* The keeper and the whole tree below it are gone. When no `exited` came before, the keeper was killed. */
        void (*gone)(void *arg, uint32_t number);
        /* The spawner was refused a system call that it needs, and `lost` follows. `call` is a literal. May be NULL. */
        void (*unable)(void *arg, const char *call, int os_errno);
        /* The spawner was killed, and all keepers are gone. The receiver has to start a new spawner. */
        void (*lost)(void *arg);
};

/* Sets the functions of fs helpers, for all spawners that are made from here on. */
void spawn_set_fs_helper(const struct spawn_fs_helper *fs_helper);
/* Sets the function of the broker's thread (keeper/broker_start.h), for all spawners that are made from here on. Without it no
 * intercepted command can be started. */
void spawn_set_broker(void *(*broker)(void *broker_start));
/* Forks the spawner. Must be called before threads exist. */
NODISCARD struct spawner *spawner_new(const struct spawn_events *events, void *arg, struct err *err);
/* Closes the socket, so that the spawner ends everything and exits. Does not wait for that. NULL is fine; returns NULL. */
struct spawner *spawner_free(struct spawner *s);

int spawn_fd(const struct spawner *s);
pid_t spawn_pid(const struct spawner *s);        /* for the server to reap */
bool spawn_wants_write(const struct spawner *s); /* whether to watch spawn_fd for writing, too */
/* Returns how long the caller may wait before it calls spawn_on_ready, even when spawn_fd is not ready; -1: for ever. */
int spawn_wait_ms(const struct spawner *s);
/* To be called when spawn_fd is readable or writable, or when spawn_wait_ms is over: sends what is queued, receives a bounded
 * number of reports, and calls events. */
void spawn_on_ready(struct spawner *s);

/* spawn_start, spawn_signal and spawn_kill queue their order when the socket is full, and the queue is sent in its order. Starts
 * also wait, and other orders overtake them, while a start that was sent LIMIT_STARTS_AHEAD starts before still waits for a
 * processor; and while the kernel does not pass their descriptors on, but then only for LIMIT_HANDOVER_MS. spawn_start returns
 * -E2BIG when the strings are longer than SPAWN_REQUEST_MAX, or -errno when a descriptor could not be duplicated. `stdio`: the
 * child's ends, which the caller still has to close; all three are the slave of a terminal when the command has one. */
NODISCARD int spawn_start(struct spawner *s, uint32_t number, const struct command_spec *command,
                          const int stdio[static 3]);

/* Has the keeper send a signal; `signalled` is the answer. The caller has to limit how many signals are unanswered: all but the
 * first few wait in a queue here. */
void spawn_signal(struct spawner *s, uint32_t number, int signo, enum spawn_scope scope);

/* Sends SIGKILL to every process of the tree, again and again until none is left. A start that is under way is cancelled, and one
 * that waits to be sent is dropped. There is no answer: exited (once, if the command was started) and gone follow. */
void spawn_kill(struct spawner *s, uint32_t number);

/* Starts an fs helper, from any thread. `spawner_socket`: spawn_fd, or a copy of it. *ret_socket is the caller's end of a socket
 * to the helper. Returns 0 or -errno. May block for about two seconds while there is no room, or while the kernel passes no
 * descriptors on. The caller keeps the image open until the helper has answered. `bwrap`: for an image that needs it, or NULL. */
NODISCARD int spawn_start_fs_helper(int spawner_socket, pid_t spawner, int image_fd,
                                    const struct bwrap *bwrap, int *ret_socket);
