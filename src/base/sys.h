/* sys: system calls that touch neither errno nor thread-local storage.
 *
 * The keeper and the child between clone and execve share their memory with the spawner (CLONE_VM), and with it the
 * spawner's errno. So nothing of libc is called there: each function here calls the kernel directly and returns a result
 * or -errno. Only for 64-bit Linux, where the structs of the kernel and of libc are the same.
 */
#pragma once

#include "base/compat.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#if IS_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* These calls are newer than the headers of some systems that we build on. Their numbers are the same on x86-64 and on arm64. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/* struct clone_args of Linux 5.7, the first version with the member `cgroup`. */
struct sys_clone_args {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
        uint64_t set_tid, set_tid_size, cgroup;
};

#if defined(__x86_64__)

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
        long ret;
        register long r10 __asm__("r10") = d;
        register long r8 __asm__("r8") = e;
        register long r9 __asm__("r9") = f;
        __asm__ volatile("syscall"
                         : "=a"(ret)
                         : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return ret;
}

/* Makes a process that calls fn(arg) on the given stack. The process pops fn and arg off that stack, and never returns from here.
 * `parent_tid` and `child_tid` are for CLONE_PARENT_SETTID and CLONE_CHILD_CLEARTID. */
static inline long sys_clone_onto(unsigned long flags, void *stack_top, pid_t *parent_tid, pid_t *child_tid,
                                  void (*fn)(void *), void *arg)
{
        void **sp = (void **)((uintptr_t)stack_top & ~(uintptr_t)15);
        *--sp = arg;
        *--sp = (void *)(uintptr_t)fn;

        long ret;
        register long r10 __asm__("r10") = (long)child_tid;
        register long r8 __asm__("r8") = 0;
        __asm__ volatile("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t"
                         "pop %%rax\n\t"
                         "pop %%rdi\n\t"
                         "call *%%rax\n\t"
                         "hlt\n"
                         "1:"
                         : "=a"(ret)
                         : "a"((long)SYS_clone), "D"(flags), "S"(sp), "d"(parent_tid), "r"(r10), "r"(r8)
                         : "rcx", "r11", "memory");
        return ret;
}

/* As sys_clone_onto, but with clone3: fn and arg are at args->stack + args->stack_size. */
static inline long sys_clone3_run(const struct sys_clone_args *args)
{
        long ret;
        __asm__ volatile("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t"
                         "pop %%rax\n\t"
                         "pop %%rdi\n\t"
                         "call *%%rax\n\t"
                         "hlt\n"
                         "1:"
                         : "=a"(ret)
                         : "a"((long)SYS_clone3), "D"(args), "S"(sizeof(*args))
                         : "rcx", "r11", "memory");
        return ret;
}

#elif defined(__aarch64__)

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
        register long x8 __asm__("x8") = nr;
        register long x0 __asm__("x0") = a;
        register long x1 __asm__("x1") = b;
        register long x2 __asm__("x2") = c;
        register long x3 __asm__("x3") = d;
        register long x4 __asm__("x4") = e;
        register long x5 __asm__("x5") = f;
        __asm__ volatile("svc #0"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                         : "memory", "cc");
        return x0;
}

/* Makes a process that calls fn(arg) on the given stack. The process loads fn and arg from that stack, and never returns from
 * here. */
static inline long sys_clone_onto(unsigned long flags, void *stack_top, pid_t *parent_tid, pid_t *child_tid,
                                  void (*fn)(void *), void *arg)
{
        void **sp = (void **)((uintptr_t)stack_top & ~(uintptr_t)15);
        *--sp = arg;
        *--sp = (void *)(uintptr_t)fn;

        register long x8 __asm__("x8") = SYS_clone;
        register long x0 __asm__("x0") = (long)flags;
        register long x1 __asm__("x1") = (long)sp;
        register long x2 __asm__("x2") = (long)parent_tid;
        register long x3 __asm__("x3") = 0;
        register long x4 __asm__("x4") = (long)child_tid;
        __asm__ volatile("svc #0\n\t"
                         "cbnz x0, 1f\n\t"
                         "mov x29, xzr\n\t"
                         "mov x30, xzr\n\t"
                         "ldp x1, x0, [sp], #16\n\t"
                         "blr x1\n\t"
                         "brk #1\n"
                         "1:"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                         : "memory", "cc");
        return x0;
}

/* As sys_clone_onto, but with clone3: fn and arg are at args->stack + args->stack_size. */
static inline long sys_clone3_run(const struct sys_clone_args *args)
{
        register long x8 __asm__("x8") = SYS_clone3;
        register long x0 __asm__("x0") = (long)args;
        register long x1 __asm__("x1") = (long)sizeof(*args);
        __asm__ volatile("svc #0\n\t"
                         "cbnz x0, 1f\n\t"
                         "mov x29, xzr\n\t"
                         "mov x30, xzr\n\t"
                         "ldp x1, x0, [sp], #16\n\t"
                         "blr x1\n\t"
                         "brk #1\n"
                         "1:"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1)
                         : "memory", "cc");
        return x0;
}

#else
#error "base/sys.h knows x86-64 and aarch64"
#endif

#define SYS_ARG(x) ((long)(x))
#define sys_call0(nr) sys6((nr), 0, 0, 0, 0, 0, 0)
#define sys_call1(nr, a) sys6((nr), SYS_ARG(a), 0, 0, 0, 0, 0)
#define sys_call2(nr, a, b) sys6((nr), SYS_ARG(a), SYS_ARG(b), 0, 0, 0, 0)
#define sys_call3(nr, a, b, c) sys6((nr), SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), 0, 0, 0)
#define sys_call4(nr, a, b, c, d) sys6((nr), SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), 0, 0)

/* The kernel's signal set: bit n-1 for signal n. */
#define SYS_SIGNAL_BIT(n) (UINT64_C(1) << ((n)-1))

static inline NORETURN void sys_exit(int status)
{
        for (;;)
                sys_call1(SYS_exit_group, status);
}

static inline int sys_prctl(int option, unsigned long value)
{
        return (int)sys6(SYS_prctl, option, SYS_ARG(value), 0, 0, 0, 0);
}

static inline pid_t sys_getpid(void)
{
        return (pid_t)sys_call0(SYS_getpid);
}

static inline pid_t sys_getppid(void)
{
        return (pid_t)sys_call0(SYS_getppid);
}

/* Forks plainly: the new process returns from this function too, on a copy of the stack. */
static inline pid_t sys_fork(void)
{
        return (pid_t)sys6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
}

/* As sys_clone_onto, but the new process begins in a cgroup, which is given by its directory. */
static inline long sys_clone3_onto(struct sys_clone_args *args, void *stack_top, void (*fn)(void *),
                                   void *arg)
{
        void **sp = (void **)((uintptr_t)stack_top & ~(uintptr_t)15);
        *--sp = arg;
        *--sp = (void *)(uintptr_t)fn;
        args->stack_size = 16; /* the kernel uses only the sum of stack and stack_size */
        args->stack = (uintptr_t)sp - args->stack_size;
        return sys_clone3_run(args);
}

/* As sys_fork, but the new process begins in a cgroup, which is given by its directory. */
static inline long sys_fork_into(int cgroup)
{
        const struct sys_clone_args args = {
                .flags = CLONE_INTO_CGROUP,
                .exit_signal = SIGCHLD,
                .cgroup = (uint64_t)cgroup,
        };
        return sys_call2(SYS_clone3, &args, sizeof(args));
}

/* Waits until a new process that shares the caller's memory has got its own by execve, or has died: the kernel then clears
 * `entering` (CLONE_CHILD_CLEARTID). CLONE_VFORK would wait too, but its caller wakes up on the processor of the new program,
 * behind it, and runs only when that program sleeps or exits. */
static inline void sys_exec_await(const pid_t *entering)
{
        pid_t now;
        while ((now = __atomic_load_n(entering, __ATOMIC_ACQUIRE)) != 0)
                (void)sys_call4(SYS_futex, entering, FUTEX_WAIT, now, NULL);
}

static inline int sys_kill(pid_t pid, int signo)
{
        return (int)sys_call2(SYS_kill, pid, signo);
}

static inline int sys_pidfd_open(pid_t pid)
{
        return (int)sys_call2(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_getfd(int pidfd, int fd)
{
        return (int)sys_call3(SYS_pidfd_getfd, pidfd, fd, 0);
}

static inline int sys_pidfd_signal(int pidfd, int signo)
{
        return (int)sys_call4(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}

static inline pid_t sys_wait4(pid_t pid, int *ret_status, int options, struct rusage *ret_usage)
{
        return (pid_t)sys_call4(SYS_wait4, pid, ret_status, options, ret_usage);
}

/* Waits for a signal of the set, for ever when `timeout` is NULL. Returns its number, or -EAGAIN after the timeout. */
static inline int sys_sigtimedwait(uint64_t set, const struct timespec *timeout)
{
        return (int)sys_call4(SYS_rt_sigtimedwait, &set, NULL, timeout, sizeof(set));
}

static inline int sys_sigmask(uint64_t set)
{
        return (int)sys_call4(SYS_rt_sigprocmask, SIG_SETMASK, &set, NULL, sizeof(set));
}

static inline int sys_openat(int dir, const char *path, int flags)
{
        return (int)sys_call4(SYS_openat, dir, path, flags | O_CLOEXEC, 0);
}

static inline int sys_open(const char *path, int flags)
{
        return sys_openat(AT_FDCWD, path, flags);
}

static inline int sys_rmdirat(int dir, const char *path)
{
        return (int)sys_call3(SYS_unlinkat, dir, path, AT_REMOVEDIR);
}

static inline int sys_close(int fd)
{
        return (int)sys_call1(SYS_close, fd);
}

/* Executes an open file whose descriptor is close-on-exec. The interpreter of a script has to open the script again through the
 * descriptor, so for a script the descriptor stays open. */
static inline long sys_exec_fd(int fd, const char *const *argv, const char *const *env)
{
        long r = sys6(SYS_execveat, fd, SYS_ARG(""), SYS_ARG(argv), SYS_ARG(env), AT_EMPTY_PATH, 0);
        if (r != -ENOENT)
                return r;
        (void)sys_call3(SYS_fcntl, fd, F_SETFD, 0);
        return sys6(SYS_execveat, fd, SYS_ARG(""), SYS_ARG(argv), SYS_ARG(env), AT_EMPTY_PATH, 0);
}

static inline long sys_read(int fd, void *p, size_t n)
{
        return sys_call3(SYS_read, fd, p, n);
}

#define SYS_TRIES 1000 /* how often sys_again allows another try, a millisecond apart */

/* Returns whether a call that returned `r` must be made again: it was interrupted, or the kernel had no memory for it. In the
 * second case this sleeps for a millisecond first. `tries` begins with 0. */
static inline bool sys_again(long r, unsigned *tries)
{
        const struct timespec moment = { .tv_nsec = 1000000 };
        if (r == -EINTR)
                return true;
        if ((r != -ENOMEM && r != -ENOBUFS) || ++*tries == SYS_TRIES)
                return false;
        (void)sys_call2(SYS_nanosleep, &moment, NULL);
        return true;
}

static inline long sys_write(int fd, const void *p, size_t n)
{
        unsigned tries = 0;
        long r;
        do
                r = sys_call3(SYS_write, fd, p, n);
        while (sys_again(r, &tries));
        return r;
}

/* Calls send(2). Tries again, as often as sys_again allows, while the kernel has no memory, or while the socket has no room and the
 * flags do not say MSG_DONTWAIT. */
static inline long sys_send(int fd, const void *p, size_t n, int flags)
{
        unsigned tries = 0;
        long r;
        do
                r = sys6(SYS_sendto, fd, SYS_ARG(p), SYS_ARG(n), flags, 0, 0);
        while (sys_again(r == -EAGAIN && !(flags & MSG_DONTWAIT) ? -ENOBUFS : r, &tries));
        return r;
}

/* Returns a new mapping, or NULL when the kernel refuses. */
static inline void *sys_map(size_t n, int protection, int flags, int fd)
{
        long at = sys6(SYS_mmap, 0, (long)n, protection, flags, fd, 0);
        return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* Maps and unmaps a stack for a process that shares our memory. That process ends inside of a function, by exit or execve, so its
 * frames stay poisoned for ASan; unmapping removes the poison, which would hold for whatever is mapped there next. */
static inline char *sys_stack_map(size_t n)
{
        return sys_map(n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static inline void sys_stack_unmap(char *stack, size_t n)
{
#if IS_ASAN
        __asan_unpoison_memory_region(stack, n);
#endif
        (void)sys_call2(SYS_munmap, stack, n);
}

static inline void sys_discard(void *p, size_t n, int advice)
{
        (void)sys_call3(SYS_madvise, p, n, advice);
}
