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

/* One for a command whose network is its own empty one, one for a command on the host's. 0, or -errno with err. The
 * result is allocated; seccomp_filter_release frees it. */
NODISCARD int seccomp_compile(bool has_network, struct seccomp_filter *ret, struct err *err);
/* One for a process of ours that serves file requests: only what that takes. The rest is EPERM; no sockets, no
 * processes, no execve. */
NODISCARD int seccomp_compile_files(struct seccomp_filter *ret, struct err *err);
void seccomp_filter_release(struct seccomp_filter *f);
#define _seccomp_filter_ CLEANUP(seccomp_filter_release)
