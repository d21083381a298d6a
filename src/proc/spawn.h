/* spawn: the server's end of the spawner, the small process that starts all commands.
 *
 *     server ── spawner ── keeper ── command
 *
 * The spawner is forked early and stays single-threaded. For each command it makes a keeper: a child sub-reaper that
 * starts the command, reports its exit, and, when told, kills everything below it until nothing is left. So every orphan
 * has an owner, a stuck execve stalls one keeper only, and whichever of the four is killed, the rest of the tree goes
 * with it (docs/internals/spawner.md).
 *
 * One command is one `number`, chosen by the caller and not used again before its `gone` event. Everything goes over
 * one SEQPACKET socket; nothing here blocks. Knows no loop: the caller watches spawn_fd() and calls spawn_on_ready().
 *
 * Events of one number come in this order: failed, gone; or started, then exited (once), with signalled in between
 * at any time, then gone. After `lost` every number is gone without further events.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <sys/types.h>

struct spawner;

/* What the command's cgroup met before it exited. */
enum spawn_met {
        SPAWN_MET_MEMORY = 1 << 0,    /* the kernel killed for memory: then it ended the whole tree */
        SPAWN_MET_PROCESSES = 1 << 1, /* the kernel refused a fork */
};

struct spawn_exit {
        int status;       /* as wait(2) gives it */
        uint64_t user_us; /* of the root process and what it waited for */
        uint64_t system_us;
        uint64_t max_rss_bytes;
        uint32_t met; /* enum spawn_met */
};

struct spawn_events {
        void (*started)(void *arg, uint32_t number, pid_t pid);
        /* Nothing runs. `step` is a literal: "cwd", "exec", "pty", "stdio", "session", "fork", "limits", "namespaces", or of
         * sandbox/enter.h. `op`: the operation of the sandbox's plan that failed, or ENTER_NO_OP. */
        void (*failed)(void *arg, uint32_t number, const char *step, int os_errno, uint32_t op);
        void (*exited)(void *arg, uint32_t number, const struct spawn_exit *exit);
        /* Answer to spawn_signal, one each, in their order; os_errno 0 when it was delivered or nobody was left to get
         * it. */
        void (*signalled)(void *arg, uint32_t number, int os_errno);
        /* The keeper and the whole tree below it are gone. When no `exited` came before, the keeper was killed. */
        void (*gone)(void *arg, uint32_t number);
        /* The spawner and all keepers are gone (somebody killed it). Start a new one. */
        void (*lost)(void *arg);
};

/* Each 0 = none. A limit above the one that we are under ourselves leaves that as it is; but more open files than may
 * be had fail at "limits". */
struct spawn_limits {
        uint64_t cpu_seconds;  /* of each process: SIGXCPU, and SIGKILL a second later */
        uint64_t memory_bytes; /* of each process: address space; and of the tree where there is a cgroup */
        uint64_t open_files;   /* of each process */
        uint64_t file_bytes;   /* of each process: the largest file that it writes; SIGXFSZ */
        uint64_t processes;    /* of the tree, threads included; only where there is a cgroup */
};

/* How each is enforced: "rlimit" or "cgroup", a literal; NULL when it was not asked for. */
struct spawn_enforced {
        const char *cpu_seconds, *memory_bytes, *open_files, *file_bytes, *processes;
};

/* Says so before the start; -ENOTSUP "limit cannot be enforced", with `rpc` 0 and a remedy, when one cannot be. What it
 * says of cgroups is found out once, on the first call that needs it. */
NODISCARD int spawn_limits_check(const struct spawn_limits *l, struct spawn_enforced *ret, struct err *err);

/* What to start. Plain data, all computed beforehand; borrowed during spawn_start only. */
struct spawn_request {
        const char *const *argv;       /* argv[0] as the program shall see it; NULL-terminated */
        const char *const *env;        /* "K=V", NULL-terminated */
        const char *const *candidates; /* programs to try in this order, as execvp does; NULL-terminated */
        const char *cwd;               /* absolute */
        int stdin_fd, stdout_fd,
                stderr_fd; /* child ends, borrowed (they are sent over); all three the slave of a tty */
        bool is_tty;       /* stdin_fd becomes the controlling terminal */
        struct spawn_limits limits;
        bool wants_cgroup; /* also without limits: a leaf of its own where one can be made, for a certain end */
        bool has_image;
        int image_fd; /* the sandbox (sandbox/image.h), borrowed */
        /* A network that a command was in is used again for the same one only (nets.h). 0: there will be no other command, so
         * nothing is made ahead. */
        uint64_t whose;
        uint32_t helpers; /* processes of the sandbox itself: those do not count for limits.processes */
};

/* Processes of another kind: each a copy of the spawner in the namespaces of an image, which runs a function in place of a
 * command, and ends by itself when its socket is closed. What they do is the caller's business; both run in the spawner's
 * memory, whose heap they may use. */
struct image;
struct spawn_filer {
        NORETURN void (*run)(int socket, const struct image *image);
        void (*failed)(int socket, int os_errno); /* it could not be made */
};
/* For all spawners that are made from here on. */
void spawn_set_filer(const struct spawn_filer *filer);
/* From any thread. `spawner_socket`: spawn_fd, or a copy of it. May wait a moment for room. -errno. */
NODISCARD int spawn_start_filer(int spawner_socket, int socket, int image_fd);

/* Forks the spawner. Call it before threads exist. */
NODISCARD struct spawner *spawner_new(const struct spawn_events *events, void *arg, struct err *err);
/* Closes the socket: the spawner ends everything and goes. Does not wait. NULL is fine; returns NULL. */
struct spawner *spawner_free(struct spawner *s);

int spawn_fd(const struct spawner *s);
pid_t spawn_pid(const struct spawner *s);        /* for the server to reap */
bool spawn_wants_write(const struct spawner *s); /* watch for writing too */
/* Call when spawn_fd is readable or writable: sends what is queued, receives what there is (bounded), calls events. */
void spawn_on_ready(struct spawner *s);

/* Each queues when the socket is full, so it cannot fail for that. spawn_start: -E2BIG when the request is over
 * SPAWN_REQUEST_MAX, or -errno when a descriptor could not be had. */
#define SPAWN_REQUEST_MAX (8 * 1024 * 1024)
NODISCARD int spawn_start(struct spawner *s, uint32_t number, const struct spawn_request *req);

enum spawn_scope {
        SPAWN_GROUP,   /* the root's process group */
        SPAWN_PROCESS, /* the root only */
        SPAWN_TREE,    /* every descendant */
};
/* How many are unanswered is for the caller to bound: beyond a few they wait here. */
void spawn_signal(struct spawner *s, uint32_t number, int signo, enum spawn_scope scope);

/* SIGKILL to every process of the tree, again and again until none is left; also cancels a start that is under way.
 * No answer of its own: exited (once, if it was started) and gone follow. */
void spawn_kill(struct spawner *s, uint32_t number);
