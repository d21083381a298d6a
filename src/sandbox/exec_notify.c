/* exec_notify: the filter of execve and its cookie (exec_notify.h). */
#include "sandbox/exec_notify.h"

#include "base/sys.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

/* The headers of some systems that we build on lack these. */
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1UL << 3)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_RET_USER_NOTIF
#define SECCOMP_RET_USER_NOTIF 0x7fc00000U
#endif

#if defined(__x86_64__)
#define ARCH_NATIVE AUDIT_ARCH_X86_64
#define ARCH_FOREIGN AUDIT_ARCH_I386
#define FOREIGN_EXECVE 11
#define FOREIGN_EXECVEAT 358
/* x32 is the same architecture for a filter. Its numbers have a bit of their own; on some kernels the last two work without it. */
#define X32_BIT 0x40000000U
#define X32_EXECVE 520
#define X32_EXECVEAT 545
#elif defined(__aarch64__)
#define ARCH_NATIVE AUDIT_ARCH_AARCH64
#define ARCH_FOREIGN AUDIT_ARCH_ARM
#define FOREIGN_EXECVE 11
#define FOREIGN_EXECVEAT 387
#else
#error "exec_notify knows x86-64 and aarch64"
#endif

#define FIRST_ARGUMENT 3 /* the cookie begins here: the kernel reads arguments 0 to 2 of execve */

#define OFFSET_ARCH ((uint32_t)offsetof(struct seccomp_data, arch))
#define OFFSET_NR ((uint32_t)offsetof(struct seccomp_data, nr))
#define OFFSET_WORD(n) \
        ((uint32_t)(offsetof(struct seccomp_data, args) + (FIRST_ARGUMENT + (n)) * sizeof(uint64_t)))

#define LOW(word) ((uint32_t)(word))
#define HIGH(word) ((uint32_t)((word) >> 32))

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
/* Compares what was loaded. The two numbers say how many instructions are left out. */
#define IF_EQ(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (otherwise))
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
#define ASK RETURN(SECCOMP_RET_USER_NOTIF)
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EACCES)

/* Four instructions: goes on behind them when one argument has this value; else leaves out `asks` more than these, to
 * the instruction that asks. seccomp_data is little-endian, as all architectures above are. */
#define IF_WORD(n, word, asks)                                                           \
        LOAD(OFFSET_WORD(n)), IF_EQ(LOW(word), 0, (asks) + 2), LOAD(OFFSET_WORD(n) + 4), \
                IF_EQ(HIGH(word), 0, (asks))

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "IF_WORD");

int exec_cookie_make(struct exec_cookie *ret)
{
        unsigned char *at = (unsigned char *)ret->words;
        for (size_t n = 0; n < sizeof(ret->words);) {
                long r = sys_call3(SYS_getrandom, at + n, sizeof(ret->words) - n, 0);
                if (r < 0 && r != -EINTR)
                        return (int)r;
                n += (size_t)MAX(r, 0L);
        }
        return 0;
}

/* Through volatile, or the compiler would leave out writes that nobody reads. */
static void wipe(void *p, size_t n)
{
        volatile unsigned char *at = p;
        while (n > 0)
                at[--n] = 0;
}

void exec_cookie_wipe(struct exec_cookie *cookie)
{
        wipe(cookie, sizeof(*cookie));
}

/* Each block of the filter goes on to the next one, or ends. */
int exec_notify_install(const struct exec_cookie *cookie)
{
        const uint64_t *words = cookie->words;
        struct sock_filter code[] = {
                LOAD(OFFSET_ARCH),
                IF_EQ(ARCH_NATIVE, 6, 0),
                IF_EQ(ARCH_FOREIGN, 0, 4), /* there is no third one: refuse */
                LOAD(OFFSET_NR),
                IF_EQ(FOREIGN_EXECVE, 2, 0),
                IF_EQ(FOREIGN_EXECVEAT, 1, 0),
                ALLOW,
                REFUSE,

                LOAD(OFFSET_NR),
#if defined(__x86_64__)
                IF_EQ(X32_BIT | X32_EXECVE, 5, 0),
                IF_EQ(X32_BIT | X32_EXECVEAT, 4, 0),
                IF_EQ(X32_BIT | SYS_execve, 3, 0),
                IF_EQ(X32_BIT | SYS_execveat, 2, 0),
                IF_EQ(X32_EXECVE, 1, 0),
                IF_EQ(X32_EXECVEAT, 0, 1),
                REFUSE,
#endif

                IF_EQ(SYS_execve, 2, 0),
                IF_EQ(SYS_execveat, 14, 0), /* there all six arguments are used, or may be: no cookie */
                ALLOW,
                IF_WORD(0, words[0], 9),
                IF_WORD(1, words[1], 5),
                IF_WORD(2, words[2], 1),
                ALLOW,
                ASK,
        };
        struct sock_fprog program = { .len = ARRAY_LEN(code), .filter = code };
        int r = sys_prctl(PR_SET_NO_NEW_PRIVS, 1);
        if (r == 0)
                r = (int)sys_call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                   SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                                   &program);
        wipe(code, sizeof(code));
        return r;
}

long exec_notify_exec(const char *path, char *const *argv, char *const *env, const struct exec_cookie *cookie)
{
        return sys6(SYS_execve, SYS_ARG(path), SYS_ARG(argv), SYS_ARG(env), (long)cookie->words[0],
                    (long)cookie->words[1], (long)cookie->words[2]);
}
