/* run: sets the server up, runs the loop, and tears everything down. */
#include "server/run.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "conn/httpd.h"
#include "conn/listener.h"
#include "core/environment.h"
#include "core/server.h"
#include "fsop/journal.h"
#include "gate/gate.h"
#include "intercept/broker.h"
#include "policy/env.h"
#include "server/client_events.h"
#include "server/drain.h"
#include "server/idle.h"
#include "server/lifeline.h"
#include "server/net_helper.h"
#include "server/selftest.h"
#include "session/session_life.h"
#include "session/task.h"
#include "watch/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* malloc keeps this much freed memory for later, and does not return it to the kernel. */
#define HEAP_KEPT_BYTES (1 * MIB)

static void flush_all(void *arg)
{
        struct server *s = arg;
        conn_flush_all(&s->conns);
}

static void on_signal(void *arg, int signo)
{
        struct server *s = arg;
        if (signo == SIGCHLD) {
                procs_reap(&s->procs);
                return;
        }
        log_info("signal", "signal=%d", signo);
        if (signo == SIGUSR1 || signo == SIGUSR2 || (signo == SIGHUP && reload_hang_up(&s->reload)))
                return;
        server_drain(s);
}

static void on_lifeline_end(void *arg)
{
        log_info("lifeline ended");
        server_drain(arg);
}

/* Raises the limit on open files as far as possible, because each connection needs one descriptor and each process three.
 * Children get the original limit. */
static void raise_file_limit(void)
{
        int r = fd_raise_limit();
        if (r < 0)
                log_warn_r(r, "file limit stays");
}

static void warn_if_open(const struct config *config)
{
        if (config->conn.listen_url.kind != LISTEN_WS || config->conn.auth.mode != AUTH_NONE)
                return;
        if (geteuid() == 0)
                log_warn("running as root without authentication: every local user can become root",
                         "remedy=--ws-auth");
        if (!listen_url_is_loopback(&config->conn.listen_url))
                log_warn("listening beyond loopback without authentication", "listen=%s",
                         log_quote(slice_from_str(config->conn.listen)));
}

/* Opens the connection on stdio. Descriptors 0 and 1 carry the protocol, so they are moved, and nothing else can write to them. */
static int open_stdio(struct server *s, struct err *err)
{
        int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (in < 0 || out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
                return err_set(err, 0, -errno, "stdio: %s", errno_text(errno));
        fd_close(null);
        int r = conn_new_stdio(&s->conns, in, out);
        return r < 0 ? err_set(err, 0, r, "stdio: %s", errno_text(r)) : 0;
}

static int open_listener(struct server *s, struct err *err)
{
        const struct listen_url *url = &s->config->conn.listen_url;
        if (url->kind == LISTEN_STDIO)
                return open_stdio(s, err);
        s->listener = listener_new(&s->conns, url, err);
        if (!s->listener)
                return err->code;
        char path[PATH_MAX];
        if (url->kind == LISTEN_UNIX) {
                if (!realpath(url->path, path))
                        return err_set(err, 0, -errno, "%s: %s", url->path, errno_text(errno));
                preparer_add_closed(&s->confine.preparer, path);
        }
        _free_ char *line = mem_printf("%s\n", listener_url(s->listener));
        int r = fd_write_all(STDOUT_FILENO, slice_from_str(line));
        return r < 0 ? err_set(err, 0, r, "stdout: %s", errno_text(r)) : 0;
}

static void sweep_run(struct work *w)
{
        struct server *s = container_of(w, struct server, sweep);
        journal_sweep(s->journal, placeholder_book_sweep, &s->confine.preparer);
}

static void sweep_done(UNUSED struct work *w)
{
}

/* Opens the journal, and has a thread remove what a dead server has left, because the file system may not answer. */
static void open_journal(struct server *s)
{
        struct err err = ERR_INIT;
        if (journal_open(NULL, &s->journal, &err) < 0) {
                log_warn("temporary files are not recorded", "why=%s", log_quote(slice_from_str(err.text)));
                return;
        }
        if (err.code != 0)
                log_info("temporary files are recorded until the machine's next start", "why=%s",
                         log_quote(slice_from_str(err.text)));
        s->confine.journal = s->journal;
        s->sweep = (struct work){ .run = sweep_run, .done = sweep_done };
        pool_submit(s->pool, &s->sweep);
}

static void free_arena(void *arg, struct arena *a)
{
        conns_free_arena(arg, a);
}

static enum lineage lineage(void *arg, pid_t pid, int proc_dir)
{
        return procs_lineage(arg, pid, proc_dir);
}

static int server_init(struct server *s, struct config *config, const struct config_source *source,
                       struct err *err)
{
        *s = (struct server){ .config = config,
                              .http_program = NET_PROGRAM_NONE,
                              .egress_program = NET_PROGRAM_NONE };
        list_init(&s->expired);
        list_init(&s->tasks);
        list_init(&s->orphaned_jobs);
        list_init(&s->detached_sessions);
        list_init(&s->leftovers);
        list_init(&s->ended_sessions);
        for (size_t i = 0; i < ARRAY_LEN(s->retained); i++)
                list_init(&s->retained[i]);
        map_init(&s->sessions);
        random_uuid(s->id);
        (void)random_hash_key(); /* makes the key before threads use it */

        int r = loop_init(&s->loop, err);
        if (r < 0)
                return r;
        loop_on_turn_end(&s->loop, flush_all, s);
        spawn_set_fs_helper(&fs_helper_process);
        spawn_set_broker(broker_run);
        r = procs_init(&s->procs, &s->loop, config->output_chunk_bytes,
                       config->retained_output_bytes_per_process, err);
        if (r < 0)
                return r;
        s->procs.free_arena = free_arena;
        s->procs.free_arg = &s->conns;
        conns_init(&s->conns, &s->loop, &config->conn, &client_events);
        s->conns.judge = (struct peer_judge){ .lineage = lineage, .arg = &s->procs };
        /* The pool is made before confine and the fs helpers, which use it. */
        r = pool_new(&s->loop, LIMIT_POOL_THREADS, &s->pool, err);
        if (r < 0)
                return r;
        reload_init(&s->reload, s->pool, config, source);
        confine_init(&s->confine, &s->loop, s->pool, config->sandbox_backend);
        fs_helpers_init(&s->fs_helpers, &s->loop, &s->confine.preparer,
                        environment_tmpdir() ? environment_tmpdir() : "");
        quick_init(&s->quick);
        open_journal(s);
        s->selftest = selftest_new(s);
        raise_file_limit(); /* after the spawner has read the limit that commands get */
        static const int signos[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, 0 };
        r = signals_new(&s->loop, signos, on_signal, s, &s->signals);
        return r < 0 ? err_set(err, 0, r, "signals: %s", errno_text(r)) : 0;
}

static void server_release(struct server *s)
{
        s->listener = listener_free(s->listener);
        httpd_drop_all(&s->conns);
        conn_drop_all(&s->conns);
        s->net = net_helper_free(s->net);
        net_program_close(&s->http_program);
        net_program_close(&s->egress_program);
        fs_helpers_interrupt(&s->fs_helpers);
        bool is_quiet = conns_end_threads(&s->conns, LIMIT_POOL_END_MS);
        /* What ends with the pool may still submit work: the last request on a dropped handle closes its file there. */
        is_quiet = pool_free(s->pool, LIMIT_POOL_END_MS) && is_quiet;
        s->pool = s->confine.pool = NULL;
        if (is_quiet) {
                s->watcher = watcher_free(s->watcher);
                s->journal = journal_close(s->journal);
                s->confine.journal = NULL;
        } else {
                log_warn("file work is stuck", "remedy=look for a dead network file system");
        }
        procs_release(&s->procs);
        sessions_release(s);
        s->gate = gate_free(s->gate);
        task_again_release(s);
        s->drain_timer = timer_free(s->drain_timer);
        s->idle_timer = timer_free(s->idle_timer);
        conns_release(&s->conns);
        if (is_quiet) {
                s->selftest = selftest_free(s->selftest);
                fs_helpers_release(&s->fs_helpers);
                quick_release(&s->quick);
                confine_release(&s->confine); /* must not be released while a stuck thread uses it */
        }
        s->signals = signals_free(s->signals);
        if (!is_quiet)
                return; /* a stuck thread may use the rest, which is freed with the process */
        loop_release(&s->loop);
        map_release(&s->sessions);
}

int server_run(struct config *config, const struct config_source *source)
{
        struct err err = ERR_INIT;
        struct lifeline lifeline = LIFELINE_INIT;
        static struct server s;   /* static: stuck threads may use it when this function has returned */
        signal(SIGPIPE, SIG_IGN); /* writing to a dead peer fails with EPIPE */
        signal(SIGXFSZ, SIG_IGN); /* writing beyond a limit on the size of files fails with EFBIG */
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
        mallopt(M_ARENA_MAX, 1); /* threads of the pool have no heaps of their own */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        env_scrub(environ);
        environment_init();
        warn_if_open(config);
        if (config->has_lifeline && lifeline_open(&lifeline, (int)config->lifeline, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        if (server_init(&s, config, source, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        int r = lifeline_watch(&lifeline, &s.loop, on_lifeline_end, &s, &err);
        if (r == 0)
                r = open_listener(&s, &err);
        if (r == 0) {
                const char *url = s.listener ? listener_url(s.listener) : config->conn.listen;
                log_info("listening", "listen=%s server=\"%.8s\"", log_quote(slice_from_str(url)), s.id);
                /* Clients may connect meanwhile: the URL is printed already. They are not read before the loop runs. */
                net_program_open(&s.http_program, &net_program_http);
                net_program_open(&s.egress_program, &net_program_egress);
                idle_begin(&s);
                loop_run(&s.loop);
        } else {
                fprintf(stderr, "Error: %s\n", err.text);
        }
        lifeline_release(&lifeline);
        server_release(&s);
        environment_release();
        return r == 0 ? 0 : 1;
}
