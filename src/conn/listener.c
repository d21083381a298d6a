/* listener: opens the listening socket, and accepts connections as long as there are descriptors for them. */
#include "conn/listener.h"

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "conn/httpd.h"
#include "conn/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define ACCEPTS_PER_TURN 64
/* While there is no room for another connection, the socket is not watched for this time: a waiting connection would wake the
 * loop again and again. */
#define REST_MS 100
#define LOCK_TRY_MS 10 /* time between two attempts to lock the directory of a socket */
/* The server opens this many descriptors of its own after the listener. */
#define OWN_LATER 8

struct listener {
        struct conns *conns;
        int fd;
        struct watch *watch;
        struct timer *rest;
        bool is_unix;
        char *path; /* path of the unix socket that we made, or NULL */
        dev_t dev;  /* identifies our socket file: we must not remove that of a later server */
        ino_t ino;
        char *url;
        size_t pending_max; /* how many connections may be unauthenticated at once */
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

/* --- accepting connections ---------------------------------------------------------------------------------------- */

static void log_refusal(struct listener *l, const struct peer *peer, const char *why)
{
        if (refusal_must_log(&l->conns->refusals, REFUSAL_PEER))
                log_warn(refusal_event(REFUSAL_PEER), "pid=%d uid=%u why=%s%s", peer->pid, peer->uid, why,
                         peer_is_allowable(why) ? " remedy=--allow-other-namespaces" : "");
}

/* Decides whether the peer of a unix socket is accepted, and names it. Returns false when it is refused. */
static bool admit_unix(struct listener *l, int fd, char *ret_name, size_t size)
{
        struct peer peer;
        const struct conns *s = l->conns;
        const char *why = peer_refuse(fd, s->options->allow_other_namespaces, &s->judge, &peer);
        snprintf(ret_name, size, "unix:pid=%d,uid=%u", peer.pid, peer.uid);
        if (why)
                log_refusal(l, &peer, why);
        return !why;
}

static void tune_tcp(const struct conns *s, int fd)
{
        int on = 1;
        unsigned timeout = (unsigned)s->options->tcp_user_timeout_ms;
        /* Failures are harmless: they cost speed, or a dead peer is noticed later. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        if (timeout)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

/* Divides the limit on open files among unauthenticated connections, WebSocket connections, and the commands and files of
 * clients. */
static void share_descriptors(struct listener *l)
{
        struct rlimit files;
        struct conns *s = l->conns;
        l->pending_max = LIMIT_HTTP_PENDING;
        s->max = SIZE_MAX;
        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
                return;
        size_t limit = (size_t)files.rlim_cur;
        l->pending_max = MAX(MIN(limit / 4, (size_t)LIMIT_HTTP_PENDING), (size_t)1);
        /* The kernel gives the lowest free number, so l->fd is about how many descriptors were in use when it was opened. */
        size_t own = (size_t)l->fd + OWN_LATER;
        size_t room = limit - MIN(limit, own);
        size_t reserve = MIN(MAX(room / 4, (size_t)LIMIT_OPEN_FILES_RESERVE_LEAST),
                             (size_t)LIMIT_OPEN_FILES_RESERVE_MOST);
        size_t taken = l->pending_max + reserve;
        s->max = MAX(room - MIN(room, taken), MAX(room / 4, (size_t)1));
}

/* Takes the descriptor of a new connection. Returns false when the peer was refused. */
static bool on_connection(struct listener *l, int fd, const union address *from)
{
        struct conns *s = l->conns;
        char peer[64];
        if (l->is_unix && !admit_unix(l, fd, peer, sizeof(peer))) {
                fd_close(fd);
                return false;
        }
        if (s->count >= s->options->max_connections) {
                if (refusal_must_log(&s->refusals, REFUSAL_CONNECTION))
                        log_warn(refusal_event(REFUSAL_CONNECTION), "limit=max_connections value=%llu",
                                 (unsigned long long)s->options->max_connections);
                fd_close(fd);
                return true;
        }
        if (!l->is_unix) {
                format_ip(from, peer, sizeof(peer));
                tune_tcp(s, fd);
        }
        httpd_new(s, fd, peer);
        return true;
}

static void stop_accepting_for(struct listener *l, uint64_t ms)
{
        watch_set(l->watch, 0);
        timer_start(l->rest, ms);
}

static void on_rest_over(void *arg)
{
        struct listener *l = arg;
        watch_set(l->watch, WATCH_READ);
}

/* Returns whether a new connection needs the place of an HTTP connection. Anybody can open connections that never become a
 * WebSocket, at no cost. So the oldest of them is dropped for a new one, but not before it had a moment to become a WebSocket;
 * until then the new connection waits. */
static bool is_crowded(const struct listener *l)
{
        const struct conns *s = l->conns;
        bool is_full = s->count >= s->options->max_connections;
        return s->http_count >= l->pending_max || (is_full && s->http_count > 0);
}

/* Drops the oldest HTTP connection for one that waits. Returns false when it must not be dropped yet. */
static bool make_room(struct listener *l)
{
        uint64_t wait_ms = httpd_oldest_wait_ms(l->conns);
        if (wait_ms > 0) {
                stop_accepting_for(l, MIN(wait_ms, (uint64_t)REST_MS));
                return false;
        }
        httpd_drop_oldest(l->conns);
        return true;
}

static void on_ready(void *arg, UNUSED unsigned events)
{
        struct listener *l = arg;
        for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
                union address from;
                socklen_t len = sizeof(from);
                /* We only know that one connection waits. A second one may not exist, so nothing is dropped for it. */
                if (is_crowded(l) && (i > 0 || !make_room(l)))
                        return;
                int fd = accept4(l->fd, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd >= 0) {
                        /* Checking a peer takes time, so other events are handled after a refused peer. */
                        if (!on_connection(l, fd, &from))
                                return;
                        continue;
                }
                if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                        int r = -errno;
                        if (refusal_must_log(&l->conns->refusals, REFUSAL_ACCEPT))
                                log_warn_r(r, refusal_event(REFUSAL_ACCEPT));
                        stop_accepting_for(l, REST_MS);
                        return;
                }
                if (errno != EINTR && errno != ECONNABORTED)
                        return;
        }
}

/* --- opening the socket ------------------------------------------------------------------------------------------- */

static int open_tcp(struct listener *l, const struct listen_url *url, struct err *err)
{
        union address a = { 0 };
        socklen_t len;
        if (inet_pton(AF_INET, url->host, &a.v4.sin_addr) == 1) {
                a.v4.sin_family = AF_INET;
                a.v4.sin_port = htons(url->port);
                len = sizeof(a.v4);
        } else {
                must(inet_pton(AF_INET6, url->host, &a.v6.sin6_addr) == 1); /* config_check has checked it */
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

/* Locks the directory of the socket, so that two servers that start at the same time do not take each other's socket for dead
 * and remove it. Returns a descriptor; closing it unlocks. Returns -EWOULDBLOCK when another process keeps the lock (any process
 * that may read the directory can), or another -errno. */
static int lock_directory(const char *path)
{
        const char *slash = strrchr(path, '/');
        _free_ char *directory =
                slash ? slice_dup(slice_from(path, MAX((size_t)(slash - path), (size_t)1))) : mem_strdup(".");
        _close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        uint64_t until_ms = clock_mono_ms() + LIMIT_SOCKET_LOCK_MS;
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return -errno;
                if (clock_mono_ms() >= until_ms)
                        return -EWOULDBLOCK;
                (void)poll(NULL, 0, LOCK_TRY_MS); /* blocking is fine: no client is connected yet */
        }
        return TAKE_FD(fd);
}

/* Returns 0 when no server listens on the socket: it refuses the connection, or was removed meanwhile. Any other failure proves
 * nothing: a socket of another type, or one that we may not connect to, may be in use. */
static int check_unused(const char *path, const struct sockaddr_un *un, struct err *err)
{
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bool is_there = fd >= 0 && connect(fd, (const struct sockaddr *)un, sizeof(*un)) == 0;
        if (is_there || (fd >= 0 && (errno == EPROTOTYPE || errno == EAGAIN)))
                return err_set(err, 0, -EADDRINUSE, "another program is listening on %s", path);
        if (fd >= 0 && (errno == ECONNREFUSED || errno == ENOENT))
                return 0;
        return err_set(err, 0, -errno, "another program may be listening on %s: %s", path, errno_text(errno));
}

/* Removes the socket of a dead server. `lock`: the result of lock_directory. */
static int clear_path(const struct listen_url *url, const struct sockaddr_un *un, int lock, struct err *err)
{
        struct stat st;
        if (lstat(url->path, &st) < 0)
                return errno == ENOENT ? 0 : err_set(err, 0, -errno, "%s: %s", url->path, errno_text(errno));
        if (!S_ISSOCK(st.st_mode))
                return err_set(err, 0, -EEXIST, "%s exists and is not a socket", url->path);
        int r = check_unused(url->path, un, err);
        if (r < 0)
                return r;
        if (lock < 0)
                return err_set(err, 0, lock,
                               "the dead socket %s is not replaced: its directory cannot be locked: %s",
                               url->path, errno_text(lock));
        if (unlink(url->path) < 0 && errno != ENOENT)
                return err_set(err, 0, -errno, "cannot remove the dead socket %s: %s", url->path,
                               errno_text(errno));
        return 0;
}

static int open_unix(struct listener *l, const struct listen_url *url, struct err *err)
{
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        must(strlen(url->path) < sizeof(un.sun_path)); /* config_check has checked it */
        memcpy(un.sun_path, url->path, strlen(url->path));
        _close_ int lock = lock_directory(url->path);
        int r = clear_path(url, &un, lock, err);
        if (r < 0)
                return r;
        l->is_unix = true;
        l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        /* bind gives the file the mode of the socket, less the umask, so the file is private from its first moment. The
         * umask itself is not changed, because all threads share it and some make files by now. */
        if (l->fd < 0 || fchmod(l->fd, 0600) < 0 || bind(l->fd, (struct sockaddr *)&un, sizeof(un)) < 0)
                return err_set(err, 0, -errno, "cannot listen on %s: %s", url->path, errno_text(errno));
        struct stat st;
        l->path = mem_strdup(url->path);
        if (lstat(url->path, &st) == 0) {
                l->dev = st.st_dev;
                l->ino = st.st_ino;
                fatal_removes(l->path, l->dev, l->ino);
        }
        if (listen(l->fd, BACKLOG) < 0)
                return err_set(err, 0, -errno, "cannot listen on %s: %s", url->path, errno_text(errno));
        l->url = mem_printf("unix:%s", url->path);
        return 0;
}

struct listener *listener_new(struct conns *s, const struct listen_url *url, struct err *err)
{
        struct listener *l = mem_new(struct listener);
        l->conns = s;
        l->fd = -1;
        int r = url->kind == LISTEN_UNIX ? open_unix(l, url, err) : open_tcp(l, url, err);
        if (r < 0)
                return listener_free(l);
        share_descriptors(l);
        l->rest = timer_new(s->loop, on_rest_over, l);
        r = watch_new(s->loop, l->fd, WATCH_READ, on_ready, l, &l->watch);
        if (r < 0) {
                (void)err_set(err, 0, r, "cannot listen on %s: %s", l->url, errno_text(r));
                return listener_free(l);
        }
        return l;
}

static void remove_path(const struct listener *l)
{
        fatal_removes(NULL, 0, 0);
        struct stat st;
        if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
                (void)unlink(l->path); /* if this fails, the next server replaces the file */
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
