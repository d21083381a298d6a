/* proc_text: what a broker reads in the texts of /proc/PID: pure; the texts hold names that a command has chosen. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

#include <sys/types.h>

/* /proc/PID/status of a thread. The sets have the bit n-1 for the signal n. */
struct proc_status {
        pid_t process; /* the process of the thread; its number is that of its first thread */
        pid_t parent;
        pid_t tracer; /* 0: none */
        uint32_t threads;
        uint32_t umask;
        char state; /* as ps(1) shows it */
        uint64_t pending, blocked, ignored, caught;
};

/* Returns 0, or -EBADMSG when a line is missing or no number stands where one must be. */
NODISCARD int proc_status_parse(struct slice text, struct proc_status *ret);
/* Finds the flags of an open file in /proc/PID/fdinfo/N. Returns 0 or -EBADMSG. */
NODISCARD int proc_fdinfo_parse(struct slice text, uint32_t *ret_flags);
/* Finds an entry of /proc/PID/auxv, by its AT_ number. Returns 0, -ENOENT when there is none, or -EBADMSG when the text does not end
 * as it must. */
NODISCARD int proc_auxv_find(struct slice bytes, uint64_t type, uint64_t *ret);
/* Returns whether /proc/PID/syscall says that a process waits for a child that it has made with vfork or its like. */
NODISCARD bool proc_syscall_is_vfork(struct slice text);
/* Finds in /proc/PID/stat the wait status of a process that has died and that its parent has not waited for. Returns 0 or -EBADMSG. */
NODISCARD int proc_stat_parse_exit(struct slice text, int *ret_status);
