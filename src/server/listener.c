#include "server/listener.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define ACCEPTS_PER_TURN 64
/* After EMFILE the listener rests: the pending connection would wake us for nothing. */
#define REST_MS 100

struct listener {
        struct server *server;
        int fd;
        struct watch *watch;
        struct timer *rest;
        bool is_unix;
        char *path; /* of a unix socket that we made */
        dev_t dev;  /* and which file it is: a successor's is not ours to remove */
        ino_t ino;
        char *url;
};

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
};

static void format_ip(const union address *a, char *ret, size_t size)
{
        char ip[INET6_ADDRSTRLEN] = "?";
        if (a->any.sa_family == AF_INET6) {
                inet_ntop(AF_INET6, &a->v6.sin6_addr, ip, sizeof(ip));
                snprintf(ret, size, "[%s]:%u", ip, ntohs(a->v6.sin6_port));
        } else {
                inet_ntop(AF_INET, &a->v4.sin_addr, ip, sizeof(ip));
                snprintf(ret, size, "%s:%u", ip, ntohs(a->v4.sin_port));
        }
}

/* --- coming in ---------------------------------------------------------------------------------------------------- */

/* False when the peer may not come in. */
static bool admit_unix(int fd, char *peer, size_t size)
{
        struct ucred cred;
        socklen_t len = sizeof(cred);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
                return false;
        snprintf(peer, size, "unix:pid=%d,uid=%u", (int)cred.pid, cred.uid);
        if (cred.uid == geteuid() || cred.uid == 0)
                return true;
        log_warn("peer refused", "uid=%u", cred.uid);
        return false;
}

static void tune_tcp(const struct server *s, int fd)
{
        int on = 1;
        unsigned timeout = (unsigned)s->config->tcp_user_timeout_ms;
        /* Failure of either only costs speed or patience. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        if (timeout)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void on_connection(struct listener *l, int fd, const union address *from)
{
        struct server *s = l->server;
        char peer[64];
        if (s->connection_count >= s->config->max_connections) {
                log_warn("connection refused", "limit=max_connections value=%llu",
                         (unsigned long long)s->config->max_connections);
                fd_close(fd);
                return;
        }
        if (l->is_unix) {
                if (!admit_unix(fd, peer, sizeof(peer))) {
                        fd_close(fd);
                        return;
                }
        } else {
                format_ip(from, peer, sizeof(peer));
                tune_tcp(s, fd);
        }
        httpd_new(s, fd, peer);
}

static void on_rested(void *arg)
{
        struct listener *l = arg;
        watch_set(l->watch, WATCH_READ);
}

static void on_ready(void *arg, UNUSED unsigned events)
{
        struct listener *l = arg;
        for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
                union address from;
                socklen_t len = sizeof(from);
                int fd = accept4(l->fd, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd >= 0) {
                        on_connection(l, fd, &from);
                        continue;
                }
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                        log_warn_r(-errno, "cannot accept");
                        watch_set(l->watch, 0);
                        timer_start(l->rest, REST_MS);
                        return;
                }
                if (errno != EINTR && errno != ECONNABORTED)
                        return;
        }
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static int open_tcp(struct listener *l, const struct listen_url *url, struct err *err)
{
        union address a = { 0 };
        socklen_t len;
        if (inet_pton(AF_INET, url->host, &a.v4.sin_addr) == 1) {
                a.v4.sin_family = AF_INET;
                a.v4.sin_port = htons(url->port);
                len = sizeof(a.v4);
        } else {
                must(inet_pton(AF_INET6, url->host, &a.v6.sin6_addr) == 1); /* config_check has seen to it */
                a.v6.sin6_family = AF_INET6;
                a.v6.sin6_port = htons(url->port);
                len = sizeof(a.v6);
        }
        int on = 1;
        l->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (l->fd < 0 || setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            bind(l->fd, &a.any, len) < 0 || listen(l->fd, BACKLOG) < 0 ||
            getsockname(l->fd, &a.any, &len) < 0)
                return err_set(err, 0, -errno, "cannot listen on %s port %u: %s", url->host, url->port,
                               errno_text(errno));
        char text[64];
        format_ip(&a, text, sizeof(text));
        l->url = mem_printf("ws://%s", text);
        return 0;
}

/* Is somebody listening there? A dead server's file refuses. */
static bool is_alive(const struct sockaddr_un *un)
{
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return true;
        /* EAGAIN: alive with a full backlog. */
        return connect(fd, (const struct sockaddr *)un, sizeof(*un)) == 0 || errno == EAGAIN ||
               errno == EINPROGRESS;
}

static int clear_path(const struct listen_url *url, const struct sockaddr_un *un, struct err *err)
{
        struct stat st;
        if (lstat(url->path, &st) < 0)
                return errno == ENOENT ? 0 : err_set(err, 0, -errno, "%s: %s", url->path, errno_text(errno));
        if (!S_ISSOCK(st.st_mode))
                return err_set(err, 0, -EEXIST, "%s exists and is not a socket", url->path);
        if (is_alive(un))
                return err_set(err, 0, -EADDRINUSE, "another server is listening on %s", url->path);
        if (unlink(url->path) < 0 && errno != ENOENT)
                return err_set(err, 0, -errno, "cannot remove the dead socket %s: %s", url->path,
                               errno_text(errno));
        return 0;
}

static int open_unix(struct listener *l, const struct listen_url *url, struct err *err)
{
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        must(strlen(url->path) < sizeof(un.sun_path)); /* config_check has seen to it */
        memcpy(un.sun_path, url->path, strlen(url->path));
        int r = clear_path(url, &un, err);
        if (r < 0)
                return r;
        l->is_unix = true;
        l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        /* The umask makes the file private from its first moment; nobody else runs in this process yet. */
        mode_t old = umask(0177);
        r = l->fd < 0 ? -1 : bind(l->fd, (struct sockaddr *)&un, sizeof(un));
        int e = errno;
        umask(old);
        if (r < 0)
                return err_set(err, 0, -e, "cannot listen on %s: %s", url->path, errno_text(e));
        struct stat st;
        l->path = mem_strdup(url->path);
        if (lstat(url->path, &st) == 0) {
                l->dev = st.st_dev;
                l->ino = st.st_ino;
        }
        if (listen(l->fd, BACKLOG) < 0)
                return err_set(err, 0, -errno, "cannot listen on %s: %s", url->path, errno_text(errno));
        l->url = mem_printf("unix:%s", url->path);
        return 0;
}

struct listener *listener_new(struct server *s, const struct listen_url *url, struct err *err)
{
        struct listener *l = mem_new(struct listener);
        l->server = s;
        l->fd = -1;
        int r = url->kind == LISTEN_UNIX ? open_unix(l, url, err) : open_tcp(l, url, err);
        if (r < 0)
                return listener_free(l);
        l->watch = watch_new(&s->loop, l->fd, on_ready, l);
        watch_set(l->watch, WATCH_READ);
        l->rest = timer_new(&s->loop, on_rested, l);
        return l;
}

static void remove_path(const struct listener *l)
{
        struct stat st;
        if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
                (void)unlink(l->path); /* a file that stays is replaced by the next server */
}

struct listener *listener_free(struct listener *l)
{
        if (!l)
                return NULL;
        remove_path(l);
        l->watch = watch_free(l->watch);
        l->rest = timer_free(l->rest);
        fd_close(l->fd);
        free(l->path);
        free(l->url);
        free(l);
        return NULL;
}

const char *listener_url(const struct listener *l)
{
        return l->url;
}
