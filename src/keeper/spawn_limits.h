/* spawn_limits: the limits of a command, and which of them this machine can enforce. */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "keeper/cgroup.h"

#include <sys/resource.h>

/* 0 means no limit. A limit above the server's own changes nothing; but a start with more open files than the server may have
 * fails at the step "limits". */
struct spawn_limits {
        uint64_t cpu_seconds;  /* for each process: SIGXCPU, and SIGKILL a second later */
        uint64_t memory_bytes; /* address space of each process; with a cgroup also the memory of the tree */
        uint64_t open_files;   /* for each process */
        uint64_t file_bytes;   /* the largest file that a process may write; SIGXFSZ */
        uint64_t processes;    /* in the tree, threads included; only where there is a cgroup */
};

/* How each limit is enforced: "rlimit" or "cgroup", a literal; NULL when the limit was not asked for. */
struct spawn_enforced {
        const char *cpu_seconds, *memory_bytes, *open_files, *file_bytes, *processes;
};

/* Says before the start how each limit will be enforced. Returns 0; or -ENOTSUP and fills `err` ("limit cannot be enforced",
 * `rpc` 0 and a remedy) when a limit cannot be. Whether there are cgroups is found out once, on the first call that needs to
 * know. */
NODISCARD int spawn_limits_check(const struct spawn_limits *l, struct spawn_enforced *ret, struct err *err);

/* Returns the limits that a cgroup has to enforce. */
NODISCARD struct cgroup_limits spawn_limits_tree(const struct spawn_limits *l);

/* Returns the limit on open files of a command in a sandbox, computed from that of a command without one. */
NODISCARD struct rlimit spawn_limits_nofile(struct rlimit plain);
