/* seccomp: makes the filters that deny system calls to sandboxed commands.
 *
 * libseccomp compiles each filter once into BPF, which a process passes to the kernel with one system call before execve.
 * Calls that are newer than the library are named by number.
 *
 * A denied call returns EPERM; clone3 returns ENOSYS, so that libc falls back to clone, whose flags the filter can read. A
 * call of another architecture (i386 and x32 on x86-64, arm on aarch64) kills the process with SIGSYS.
 */
#pragma once

#include "base/err.h"

#include <linux/filter.h>

struct seccomp_filter {
        struct sock_filter *code;
        size_t count; /* at most BPF_MAXINSNS */
};

/* The sandbox that a filter is for. The first two are the values false and true of `has_network`. */
enum seccomp_kind {
        SECCOMP_OWN_NETWORK,  /* namespaces, with an empty network */
        SECCOMP_HOST_NETWORK, /* namespaces, with the network of the machine */
        SECCOMP_NO_SOCKETS,   /* no namespaces: sockets are denied, so there is no network */
        /* Files are limited by Landlock alone. Calls that Landlock does not cover are refused for every file: changes of
         * modes, owners, times and attributes; System V objects; settings of other processes. */
        SECCOMP_ALONE_NO_SOCKETS,
        SECCOMP_ALONE_HOST_NETWORK,
        /* An fs helper: only the calls that it needs are allowed. All others return EPERM: no sockets, no processes, no
         * execve. */
        SECCOMP_FILES,
        SECCOMP_KINDS,
};

/* Compiles the filter of a kind. Returns 0, or -errno with err. The caller frees the result with seccomp_filter_release. */
NODISCARD int seccomp_compile(enum seccomp_kind kind, struct seccomp_filter *ret, struct err *err);
void seccomp_filter_release(struct seccomp_filter *f);
#define _seccomp_filter_ CLEANUP(seccomp_filter_release)
