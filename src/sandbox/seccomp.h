/* seccomp: the system calls that a sandboxed command does not have.
 *
 * Compiled once, with libseccomp, into BPF that a process about to exec can hand to the kernel with one system call.
 * Calls newer than the library are named by number.
 *
 * What is refused answers EPERM; clone3 answers ENOSYS, so that libc falls back to clone, whose flags can be seen. A call
 * of another architecture (i386 and x32 on x86-64, arm on aarch64) kills the process with SIGSYS.
 */
#pragma once

#include "base/err.h"

#include <linux/filter.h>

struct seccomp_filter {
        struct sock_filter *code;
        size_t count; /* at most BPF_MAXINSNS */
};

/* What stands around the command. The first two are false and true of "has the machine's network". */
enum seccomp_kind {
        SECCOMP_OWN_NETWORK,  /* namespaces, and an empty network among them */
        SECCOMP_HOST_NETWORK, /* namespaces, and the machine's network */
        SECCOMP_NO_SOCKETS,   /* no namespaces: there is no network because there are no sockets */
        /* … and files are limited by Landlock alone. What that does not know is refused here, wherever: changes of modes,
         * owners, times and attributes; objects of System V; settings of other processes. */
        SECCOMP_ALONE_NO_SOCKETS,
        SECCOMP_ALONE_HOST_NETWORK,
        /* A process of ours that serves file requests: only what that takes. The rest is EPERM; no sockets, no processes,
         * no execve. */
        SECCOMP_FILES,
        SECCOMP_KINDS,
};

/* 0, or -errno with err. The result is allocated; seccomp_filter_release frees it. */
NODISCARD int seccomp_compile(enum seccomp_kind kind, struct seccomp_filter *ret, struct err *err);
void seccomp_filter_release(struct seccomp_filter *f);
#define _seccomp_filter_ CLEANUP(seccomp_filter_release)
