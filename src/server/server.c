#include "server/server.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "fsop/journal.h"
#include "policy/env.h"
#include "server/conn.h"
#include "server/environment.h"
#include "server/httpd.h"
#include "server/listener.h"
#include "server/net_helper.h"
#include "server/session.h"
#include "server/task.h"
#include "server/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a turn has allocated and freed is kept for the next one, instead of being given back and asked for again. */
#define HEAP_KEPT_BYTES (1 * MIB)

static void flush_all(void *arg)
{
        struct server *s = arg;
        struct conn *c;
        while ((c = list_first(&s->dirty, struct conn, dirty_link)))
                conn_flush(c);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static bool has_processes(struct server *s)
{
        return s->procs.used > 0;
}

static void each_session(struct server *s, void (*fn)(struct session *session))
{
        struct session *session;
        for (size_t pos = 0; (session = map_next(&s->sessions, &pos));)
                fn(session);
}

static void end_gently(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_end_gently(t, END_SHUTDOWN);
        }
}

static void end_now(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_end_now(t, END_SHUTDOWN);
        }
}

static void end_all_now(struct server *s)
{
        each_session(s, end_now);
        struct session *session;
        list_each (session, &s->ended_sessions, ended_link) {
                end_now(session);
        }
}

/* Everything has ended: tell clients, and leave the loop once they have heard it. */
static void finish(struct server *s)
{
        s->is_finishing = true;
        struct conn *c;
        list_each (c, &s->conns, link) {
                conn_close(c, WS_CLOSE_GOING_AWAY);
        }
        timer_start(s->drain_timer, LIMIT_FAREWELL_MS);
        server_conn_gone(s);
}

void server_conn_gone(struct server *s)
{
        if (s->is_finishing && list_is_empty(&s->conns))
                loop_stop(&s->loop);
}

static void on_drain_timer(void *arg)
{
        struct server *s = arg;
        if (s->is_finishing) {
                loop_stop(&s->loop);
                return;
        }
        if (s->is_killing || !has_processes(s)) {
                finish(s); /* killed, and still there: the spawner's end takes care of what the kernel holds */
                return;
        }
        s->is_killing = true;
        end_all_now(s);
        timer_start(s->drain_timer, LIMIT_SHUTDOWN_KILL_MS);
}

void server_process_gone(struct server *s)
{
        if (s->is_draining && !s->is_finishing && !has_processes(s))
                timer_start(s->drain_timer, 0);
}

void server_drain(struct server *s)
{
        if (s->is_draining) {
                if (!s->is_killing && !s->is_finishing)
                        on_drain_timer(s); /* asked twice: the grace period is over */
                return;
        }
        s->is_draining = true;
        uint64_t grace_ms = s->config->shutdown_grace_period_ms;
        log_info("shutting down", "processes=%u", s->procs.used);
        s->drain_timer = timer_new(&s->loop, on_drain_timer, s);
        if (!has_processes(s) || grace_ms == 0) {
                timer_start(s->drain_timer, 0);
                return;
        }
        each_session(s, end_gently);
        timer_start(s->drain_timer, grace_ms);
}

static void on_stop_signal(uv_signal_t *handle, int signo)
{
        struct server *s = handle->data;
        log_info("signal", "signal=%d", signo);
        server_drain(s);
}

static void on_child(uv_signal_t *handle, UNUSED int signo)
{
        struct server *s = handle->data;
        procs_reap(&s->procs);
}

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static void watch_signal(struct server *s, uv_signal_t *handle, uv_signal_cb fn, int signo)
{
        uv_signal_init(&s->loop.uv, handle);
        handle->data = s;
        uv_signal_start(handle, fn, signo);
}

/* One descriptor per connection, three per process: as many as the system lets us have. Children get the original
 * limit back. */
static void raise_file_limit(void)
{
        struct rlimit r;
        if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
                r.rlim_cur = r.rlim_max;
                if (setrlimit(RLIMIT_NOFILE, &r) < 0)
                        log_warn_r(-errno, "file limit stays");
        }
}

static int print_url(const char *url)
{
        _free_ char *line = mem_printf("%s\n", url);
        return fd_write_all(STDOUT_FILENO, slice_from_str(line));
}

static void warn_if_open(const struct config *config)
{
        if (config->listen_url.kind != LISTEN_WS || config->auth.mode != AUTH_NONE)
                return;
        if (geteuid() == 0)
                log_warn("running as root without authentication: every local user can become root",
                         "remedy=--ws-auth");
        if (!listen_url_is_loopback(&config->listen_url))
                log_warn("listening beyond loopback without authentication", "listen=%s",
                         log_quote(slice_from_str(config->listen)));
}

/* stdio: descriptors 0 and 1 carry the protocol; nothing else may ever see them. */
static int open_stdio(struct server *s, struct err *err)
{
        int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (in < 0 || out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
                return err_set(err, 0, -errno, "stdio: %s", errno_text(errno));
        fd_close(null);
        (void)conn_new_stdio(s, in, out);
        return 0;
}

static int open_listener(struct server *s, struct err *err)
{
        const struct listen_url *url = &s->config->listen_url;
        if (url->kind == LISTEN_STDIO)
                return open_stdio(s, err);
        s->listener = listener_new(s, url, err);
        if (!s->listener)
                return err->code;
        int r = print_url(listener_url(s->listener));
        return r < 0 ? err_set(err, 0, r, "stdout: %s", errno_text(r)) : 0;
}

struct sweep {
        struct work work;
        struct journal *journal;
};

static void sweep_run(struct work *w)
{
        journal_sweep(container_of(w, struct sweep, work)->journal, stub_book_sweep);
}

static void sweep_done(struct work *w)
{
        free(container_of(w, struct sweep, work));
}

/* What a dead server left is removed by a thread: it may be on a file system that does not answer. */
static void open_journal(struct server *s)
{
        struct err err = ERR_INIT;
        if (journal_open(NULL, &s->journal, &err) < 0) {
                log_warn("temporary files are not recorded", "why=%s", log_quote(slice_from_str(err.text)));
                return;
        }
        struct sweep *sweep = mem_new(struct sweep);
        *sweep = (struct sweep){ .work = { .run = sweep_run, .done = sweep_done }, .journal = s->journal };
        pool_submit(s->pool, &sweep->work);
}

static int server_init(struct server *s, const struct config *config, struct err *err)
{
        *s = (struct server){ .config = config };
        list_init(&s->conns);
        list_init(&s->dirty);
        list_init(&s->https);
        list_init(&s->expired);
        list_init(&s->tasks);
        list_init(&s->ended_sessions);
        list_init(&s->assembly_waiting);
        list_init(&s->assembly_holding);
        for (size_t i = 0; i < ARRAY_LEN(s->retained); i++)
                list_init(&s->retained[i]);
        map_init(&s->sessions);
        random_uuid(s->id);
        s->scratch = mem_alloc(SERVER_SCRATCH_REST + LIMIT_READ_BYTES + BUF_PADDING);

        int r = loop_init(&s->loop, err);
        if (r < 0)
                return r;
        loop_on_turn_end(&s->loop, flush_all, s);
        spawn_set_filer(&filer_process);
        r = procs_init(&s->procs, &s->loop, config->output_chunk_bytes,
                       config->retained_output_bytes_per_process, err);
        if (r < 0)
                return r;
        spares_init(&s->spares, &s->loop);
        boxes_init(&s->boxes, s);
        filers_init(&s->filers, s);
        r = pool_new(&s->loop, LIMIT_POOL_THREADS, &s->pool, err);
        if (r < 0)
                return r;
        open_journal(s);
        selftest_init(&s->selftest, s);
        raise_file_limit(); /* after the spawner began: commands get the limit that it has */
        watch_signal(s, &s->sigterm, on_stop_signal, SIGTERM);
        watch_signal(s, &s->sigint, on_stop_signal, SIGINT);
        watch_signal(s, &s->sighup, on_stop_signal, SIGHUP);
        watch_signal(s, &s->sigchld, on_child, SIGCHLD);
        return 0;
}

static void server_release(struct server *s)
{
        s->listener = listener_free(s->listener);
        httpd_drop_all(s);
        struct conn *c;
        list_each (c, &s->conns, link) {
                conn_drop(c);
        }
        s->net = net_helper_free(s->net);
        filers_interrupt(&s->filers);
        bool is_quiet = pool_free(TAKE(s->pool), LIMIT_POOL_END_MS);
        if (is_quiet) {
                s->watcher = watcher_free(s->watcher);
                s->journal = journal_close(s->journal);
        } else {
                log_warn("file work is stuck", "remedy=look for a dead network file system");
        }
        procs_release(&s->procs);
        sessions_release(s);
        selftest_release(&s->selftest);
        s->assembly_timer = timer_free(s->assembly_timer);
        s->drain_timer = timer_free(s->drain_timer);
        spares_release(&s->spares);
        if (is_quiet)
                filers_release(&s->filers);
        boxes_release(&s->boxes); /* a plan may be what is stuck */
        uv_close((uv_handle_t *)&s->sigterm, NULL);
        uv_close((uv_handle_t *)&s->sigint, NULL);
        uv_close((uv_handle_t *)&s->sighup, NULL);
        uv_close((uv_handle_t *)&s->sigchld, NULL);
        if (!is_quiet)
                return; /* what the stuck thread uses, the journal among it, is left to the end of the process */
        loop_release(&s->loop);
        map_release(&s->sessions);
        free(s->scratch);
}

int server_run(const struct config *config)
{
        struct err err = ERR_INIT;
        static struct server s;   /* work that is stuck may look at it when this has returned */
        signal(SIGPIPE, SIG_IGN); /* a dead peer is an errno, not a death */
        signal(SIGXFSZ, SIG_IGN); /* and so is a limit on the size of files */
        mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
        mallopt(M_ARENA_MAX, 1); /* threads of the pool keep no heaps of their own */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        env_scrub(environ);
        environment_init();
        warn_if_open(config);
        if (server_init(&s, config, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        int r = open_listener(&s, &err);
        if (r == 0) {
                log_info("listening", "listen=%s server=%.8s", log_quote(slice_from_str(config->listen)),
                         s.id);
                loop_run(&s.loop);
        } else {
                fprintf(stderr, "Error: %s\n", err.text);
        }
        server_release(&s);
        environment_release();
        return r == 0 ? 0 : 1;
}
