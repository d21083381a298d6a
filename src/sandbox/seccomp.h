/* seccomp: the system calls that a sandboxed command does not have (SANDBOX.md 6.4).
 *
 * Compiled once, with libseccomp, into BPF that a process about to exec can hand to the kernel with one system call.
 * Calls newer than the library are named by number.
 */
#pragma once

#include "base/err.h"

#include <linux/filter.h>

struct seccomp_filter {
        struct sock_filter *code;
        size_t count;
};

/* One for a command whose network is its own empty one, one for a command on the host's. 0, or -errno with err. The
 * result is allocated; seccomp_release frees it. */
NODISCARD int seccomp_compile(bool has_network, struct seccomp_filter *ret, struct err *err);
void seccomp_release(struct seccomp_filter *f);
