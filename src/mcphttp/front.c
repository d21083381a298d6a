/* front: opens the listener, accepts connections, and ends everything when a signal comes. */
#include "mcphttp/front.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "mcphttp/caller.h"
#include "mcphttp/relay.h"
#include "transport/child.h"
#include "wire/listen_url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 512
#define ACCEPTS_PER_TURN 64
#define REST_MS 100 /* while there is no room for another connection the listener is not watched */
#define PEER_TIMEOUT_MS 20000
#define PATH_DEFAULT "/mcp"
#define FAILED 255

struct front {
        const struct front_options *options;
        struct loop loop;
        struct signals *signals;
        int fd;
        struct watch *watch;
        struct timer *rest, *patience;
        struct auth auth;
        struct listen_url url;
        char *path;
        size_t most_callers;
        bool is_ending;
        struct mcp_sessions sessions;
        struct callers callers;
};

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

static void format_ip(const union address *a, char *ret, size_t size)
{
        char ip[INET6_ADDRSTRLEN] = "?";
        if (a->any.sa_family == AF_INET6) {
                inet_ntop(AF_INET6, &a->v6.sin6_addr, ip, sizeof(ip));
                (void)snprintf(ret, size, "[%s]:%u", ip, ntohs(a->v6.sin6_port));
        } else {
                inet_ntop(AF_INET, &a->v4.sin_addr, ip, sizeof(ip));
                (void)snprintf(ret, size, "%s:%u", ip, ntohs(a->v4.sin_port));
        }
}

/* ---- the options ---- */

bool front_check(const struct front_wishes *w)
{
        if (w->listen || !(w->auth || w->token_file || w->token_sha256 || w->shared_secret_file ||
                           w->issuer || w->audience || w->has_max_clock_skew_seconds || w->insecure_no_auth ||
                           w->hosts.count > 0 || w->most_sessions || w->idle_seconds))
                return true;
        fprintf(stderr,
                "Error: --ws-auth and its companions, --insecure-no-auth, --allow-host, --max-sessions and "
                "--session-idle need --listen\n");
        return false;
}

/* Takes http://IP:PORT/PATH apart. */
static int read_url(struct front *f, struct err *err)
{
        const char *text = f->options->wishes->listen;
        struct slice rest = slice_from_str(text), scheme = S("http://");
        if (slice_starts(rest, S("https://")))
                return err_set(err, 0, -EINVAL,
                               "unsupported --listen URL `%s`: there is no TLS; listen on "
                               "`http://127.0.0.1:PORT/mcp` "
                               "behind a proxy that has",
                               text);
        struct slice after =
                slice_starts(rest, scheme) ? slice_from(rest.p + scheme.n, rest.n - scheme.n) : S("");
        struct slice place = slice_split(&after, '/');
        _free_ char *ws = mem_printf("ws://%.*s", SLICE(place));
        struct err ignored = ERR_INIT;
        if (place.n == 0 || (after.p && strpbrk(after.p, "?#% ")) ||
            listen_url_parse(ws, &f->url, &ignored) < 0)
                return err_set(err, 0, -EINVAL, "invalid --listen URL `%s`; expected `http://IP:PORT/mcp`",
                               text);
        f->path = after.p ? mem_printf("/%s", after.p) : mem_strdup(PATH_DEFAULT);
        return 0;
}

static int read_auth(struct front *f, struct err *err)
{
        const struct front_wishes *w = f->options->wishes;
        struct auth_options o = {
                .mode = mem_strdup(w->auth),
                .token_file = mem_strdup(w->token_file),
                .token_sha256 = mem_strdup(w->token_sha256),
                .shared_secret_file = mem_strdup(w->shared_secret_file),
                .issuer = mem_strdup(w->issuer),
                .audience = mem_strdup(w->audience),
                .max_clock_skew_seconds = w->max_clock_skew_seconds,
                .has_max_clock_skew_seconds = w->has_max_clock_skew_seconds,
        };
        int r = auth_init(&f->auth, &o, err);
        auth_options_release(&o);
        if (r < 0 || f->auth.mode != AUTH_NONE)
                return r;
        if (!listen_url_is_loopback(&f->url) && !w->insecure_no_auth)
                return err_set(err, 0, -EPERM,
                               "refusing to listen on `%s` without authentication: whoever reaches the port "
                               "could run "
                               "commands; set up `--ws-auth`, or pass `--insecure-no-auth` to allow it",
                               w->listen);
        if (geteuid() == 0)
                log_warn("running as root without authentication: every local user can become root",
                         "remedy=--ws-auth");
        return 0;
}

/* ---- connections ---- */

static void on_rest_over(void *arg)
{
        struct front *f = arg;
        watch_set(f->watch, WATCH_READ);
}

static void rest(struct front *f)
{
        watch_set(f->watch, 0);
        timer_start(f->rest, REST_MS);
}

static void tune(int fd)
{
        int on = 1, most_unsent = LIMIT_MCP_HTTP_UNSENT_BYTES;
        unsigned timeout = PEER_TIMEOUT_MS;
        /* Failures are harmless: they cost speed, or a dead peer is noticed later. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
        /* What waits for a slow reader waits in the streams, which have a bound, and not in the kernel, which takes megabytes. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof(most_unsent));
}

static void on_connection(void *arg, UNUSED unsigned events)
{
        struct front *f = arg;
        for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
                union address from;
                socklen_t len = sizeof(from);
                char peer[64];
                /* It is only known that one connection waits, so no connection is dropped to make room for a second one: the next
                 * turn knows whether there is one. */
                if (f->callers.count >= f->most_callers && i > 0)
                        return;
                if (f->callers.count >= f->most_callers && !callers_make_room(&f->callers)) {
                        rest(f);
                        return;
                }
                int fd = accept4(f->fd, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
                        continue;
                if (fd < 0) {
                        if (errno != EAGAIN) {
                                int r = -errno;
                                if (refusal_must_log(&f->callers.refusals, REFUSAL_ACCEPT))
                                        log_warn_r(r, refusal_event(REFUSAL_ACCEPT));
                                rest(f);
                        }
                        return;
                }
                tune(fd);
                format_ip(&from, peer, sizeof(peer));
                caller_new(&f->callers, fd, peer);
        }
}

static int listen_there(struct front *f, struct err *err)
{
        union address a = { 0 };
        socklen_t len = sizeof(a.v4);
        int on = 1;
        if (inet_pton(AF_INET, f->url.host, &a.v4.sin_addr) == 1) {
                a.v4.sin_family = AF_INET;
                a.v4.sin_port = htons(f->url.port);
        } else {
                must(inet_pton(AF_INET6, f->url.host, &a.v6.sin6_addr) == 1); /* read_url has checked it */
                a.v6.sin6_family = AF_INET6;
                a.v6.sin6_port = htons(f->url.port);
                len = sizeof(a.v6);
        }
        f->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (f->fd < 0 || setsockopt(f->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            bind(f->fd, &a.any, len) < 0 || listen(f->fd, BACKLOG) < 0 ||
            getsockname(f->fd, &a.any, &len) < 0)
                return err_set(err, 0, -errno, "cannot listen on %s port %u: %s", f->url.host, f->url.port,
                               errno_text(errno));
        int r = watch_new(&f->loop, f->fd, WATCH_READ, on_connection, f, &f->watch);
        if (r < 0)
                return err_set(err, 0, r, "cannot listen: %s", errno_text(r));
        char text[64];
        format_ip(&a, text, sizeof(text));
        _free_ char *line = mem_printf("http://%s%s\n", text, f->path);
        r = fd_write_all(STDOUT_FILENO, slice_from_str(line));
        return r < 0 ? err_set(err, 0, r, "stdout: %s", errno_text(r)) : 0;
}

/* Sessions and their processes need descriptors too. */
static size_t most_callers(void)
{
        struct rlimit files;
        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
                return LIMIT_MCP_HTTP_CONNECTIONS;
        return MAX(MIN((size_t)files.rlim_cur / 2, (size_t)LIMIT_MCP_HTTP_CONNECTIONS), (size_t)1);
}

/* ---- processes of sessions ---- */

static int start_process(void *arg, int *ret_fd, pid_t *ret_pid, struct err *err)
{
        const struct front *f = arg;
        const char *token = getenv("FARHAND_TOKEN");
        /* The process of a session gets our token, for the server that it connects to. Servers that this program starts do not get
         * it. */
        _free_ char *variable = token ? mem_printf("FARHAND_TOKEN=%s", token) : NULL;
        const char *const env[] = { RELAY_VARIABLE "=1", variable, NULL };
        struct child_spec spec = { .argv = f->options->argv, .env = env, .is_apart = true };
        return child_start(&spec, ret_fd, ret_pid, err);
}

/* ---- the end ---- */

static void on_impatience(void *arg)
{
        struct front *f = arg;
        loop_stop(&f->loop);
}

static void on_empty(void *arg)
{
        struct front *f = arg;
        if (f->is_ending)
                loop_stop(&f->loop);
}

static void on_signal(void *arg, int signo)
{
        struct front *f = arg;
        if (signo == SIGCHLD) {
                mcp_sessions_reap(&f->sessions);
                return;
        }
        log_info("signal", "signal=%d", signo);
        if (f->is_ending) { /* a second signal came */
                loop_stop(&f->loop);
                return;
        }
        f->is_ending = true;
        f->watch = watch_free(f->watch);
        f->rest = timer_free(f->rest);
        f->fd = fd_close(f->fd);
        timer_start(f->patience, LIMIT_MCP_HTTP_END_MS + 1000);
        mcp_sessions_end(&f->sessions);
}

/* ---- everything ---- */

static int set_up(struct front *f, struct err *err)
{
        static const int signals[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, 0 };
        const struct front_wishes *w = f->options->wishes;
        struct session_options sessions = {
                .start = start_process,
                .arg = f,
                .most = w->most_sessions ? w->most_sessions : LIMIT_MCP_HTTP_SESSIONS,
                .idle_ms = w->idle_seconds ? w->idle_seconds * 1000 : LIMIT_MCP_HTTP_IDLE_MS,
        };
        int r = read_url(f, err);
        if (r == 0)
                r = read_auth(f, err);
        if (r < 0)
                return r;
        mcp_sessions_init(&f->sessions, &f->loop, &sessions);
        f->sessions.on_empty = on_empty;
        f->sessions.arg = f;
        callers_init(&f->callers, &f->loop, &f->sessions);
        f->callers.rules = (struct request_rules){
                .path = f->path,
                .hosts = w->hosts.items,
                .host_count = w->hosts.count,
                .knows_version = f->options->knows_version,
        };
        f->callers.auth = &f->auth;
        f->callers.has_greeting = f->options->has_greeting;
        f->most_callers = most_callers();
        f->rest = timer_new(&f->loop, on_rest_over, f);
        f->patience = timer_new(&f->loop, on_impatience, f);
        r = signals_new(&f->loop, signals, on_signal, f, &f->signals);
        if (r < 0)
                return err_set(err, 0, r, "signals: %s", errno_text(r));
        return listen_there(f, err);
}

static void tear_down(struct front *f)
{
        f->watch = watch_free(f->watch);
        f->fd = fd_close(f->fd);
        if (f->callers.loop) {
                callers_release(&f->callers);
                mcp_sessions_release(&f->sessions);
        }
        f->signals = signals_free(f->signals);
        f->rest = timer_free(f->rest);
        f->patience = timer_free(f->patience);
        loop_release(&f->loop);
        auth_release(&f->auth);
        listen_url_release(&f->url);
        free(f->path);
}

int front_run(const struct front_options *options)
{
        struct front f = { .options = options, .fd = -1 };
        struct err err = ERR_INIT;
        if (loop_init(&f.loop, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return FAILED;
        }
        (void)signal(SIGPIPE, SIG_IGN);
        log_set_level(LOG_WARN);
        int r = set_up(&f, &err);
        if (r == 0)
                loop_run(&f.loop);
        else
                fprintf(stderr, "Error: %s\n", err.text);
        tear_down(&f);
        return r == 0 ? 0 : FAILED;
}
