/* net_program: finds farhand-net and farhand-egress, and starts them. */
#include "core/net_program.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/env.h"
#include "wire/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#define LINK_FD 3
#define PROGRAM_FD 4 /* the program closes this descriptor */
#define PROGRAM_PATH "/proc/self/fd/4"

/* What libcurl, OpenSSL and the resolver read. The last ones are for builds with sanitizers. */
static const char *const http_variables[] = {
        "http_proxy",      "HTTP_PROXY",   "https_proxy",   "HTTPS_PROXY",    "all_proxy",
        "ALL_PROXY",       "no_proxy",     "NO_PROXY",      "REQUEST_METHOD", "SSL_CERT_FILE",
        "SSL_CERT_DIR",    "OPENSSL_CONF", "RES_OPTIONS",   "LOCALDOMAIN",    "HOSTALIASES",
        "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",   NULL,
};
/* The proxies beyond which the connections of commands may be asked to go. The last ones are for builds with sanitizers. */
static const char *const egress_variables[] = {
        "http_proxy", "HTTP_PROXY",   "https_proxy",   "HTTPS_PROXY",  "all_proxy",
        "ALL_PROXY",  "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", NULL,
};

const struct net_program_kind net_program_http = { .name = NET_PROGRAM,
                                                   .what = "http helper",
                                                   .variables = http_variables };
const struct net_program_kind net_program_egress = { .name = EGRESS_PROGRAM,
                                                     .what = "network helper",
                                                     .variables = egress_variables };

void net_program_open(struct net_program *p, const struct net_program_kind *kind)
{
        struct err err = ERR_INIT;
        char path[PATH_MAX];
        p->kind = kind;
        if (helper_find(kind->name, path) < 0 || helper_open(path, true, &p->helper, &err) == 0)
                return;
        p->refusal = mem_strdup(err.text);
        char event[64];
        (void)snprintf(event, sizeof(event), "%s refused", kind->what);
        log_warn(event, "why=%s remedy=farhand-doctor", log_quote(slice_from_str(err.text)));
}

void net_program_close(struct net_program *p)
{
        helper_close(&p->helper);
        free(TAKE(p->refusal));
}

/* Collects the variables that the program gets: no others. */
static void collect_environment(const struct net_program_kind *kind, const char **ret, size_t max)
{
        size_t count = 0;
        for (const char *const *name = kind->variables; *name; name++) {
                const char *value = env_get((const char *const *)environ, *name);
                if (value && count + 1 < max) /* the whole entry: NAME=VALUE */
                        ret[count++] = value - strlen(*name) - 1;
        }
        ret[count] = NULL;
}

/* Sets what the program gets: signals, descriptors and a session of its own. Returns 0 or an errno, as posix_spawn does. */
static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int link, int program)
{
        sigset_t all, none;
        sigfillset(&all);
        sigemptyset(&none);
        int r = posix_spawnattr_setflags(attr,
                                         POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = r ? r : posix_spawnattr_setsigmask(attr, &none);
        r = r ? r : posix_spawnattr_setsigdefault(attr, &all);
        /* The program must not write to the server's stdout. */
        r = r ? r : posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        r = r ? r : posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        r = r ? r : posix_spawn_file_actions_adddup2(actions, link, LINK_FD);
        r = r ? r : posix_spawn_file_actions_adddup2(actions, program, PROGRAM_FD);
        return r ? r : posix_spawn_file_actions_addclosefrom_np(actions, PROGRAM_FD + 1);
}

/* `program` must be greater than LINK_FD and PROGRAM_FD, so that neither dup2 overwrites it. */
static int spawn_program(const struct net_program_kind *kind, int program, int link, pid_t *ret_pid)
{
        const char *environment[32], *argv[] = { kind->name, "--serve", NULL };
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        collect_environment(kind, environment, ARRAY_LEN(environment));
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attr);
        int r = prepare(&actions, &attr, link, program);
        r = r ? r
              : posix_spawn(ret_pid, PROGRAM_PATH, &actions, &attr, (char **)(uintptr_t)argv,
                            (char **)(uintptr_t)environment);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attr);
        return -r;
}

static int start_once(const struct net_program *p, int link, pid_t *ret_pid)
{
        int fd = helper_fd(&p->helper);
        _close_ int program = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, PROGRAM_FD + 1);
        if (program < 0)
                return fd < 0 ? fd : -errno;
        return spawn_program(p->kind, program, link, ret_pid);
}

bool net_program_is_there(const struct net_program *p, struct err *err)
{
        if (p->refusal)
                (void)err_set(err, RPC_INTERNAL, -EPERM, "%s refused: %s", p->kind->what, p->refusal);
        else if (!p->kind || p->helper.file < 0)
                (void)err_set(err, RPC_INTERNAL, -ENOENT, "%s not installed",
                              p->kind ? p->kind->what : "helper");
        else
                return true;
        return false;
}

int net_program_start(struct net_program *p, int link, pid_t *ret_pid, struct err *err)
{
        if (!net_program_is_there(p, err))
                return err->code;
        int r = start_once(p, link, ret_pid);
        if ((r == -EACCES || r == -EPERM) && p->helper.copy >= 0) {
                /* Some systems execute only installed files, and not our copy in memory. */
                log_warn_r(r, "copy of a helper program is not executed: using the file", "program=%s",
                           p->kind->name);
                helper_drop_copy(&p->helper);
                r = start_once(p, link, ret_pid);
        }
        if (r == -ESTALE)
                return err_set(err, RPC_INTERNAL, r, "%s refused: it has changed; " HELPER_REMEDY_CHANGED,
                               p->kind->what);
        if (r < 0)
                return err_set(err, RPC_INTERNAL, r, "%s cannot be started: %s", p->kind->what,
                               errno_text(r));
        return 0;
}
