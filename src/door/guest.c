/* guest: serves one connection: finds the environment, answers the upgrade, and moves bytes until one side closes.
 *
 * Frames pass as they are, unless the environment is a program that has one message on each line: then they are taken apart
 * (door/frames.h).
 */
#include "door/guest.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/printable.h"
#include "cli/background.h"
#include "door/duct.h"
#include "door/frames.h"
#include "wire/http.h"
#include "wire/ws.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)1024 * 1024)

struct guest {
        struct guests *all;
        int fd;
        char accept[29];    /* Sec-WebSocket-Accept */
        struct slice early; /* what the client has sent behind its request; a copy */
};

static void tell(const struct guest *g, const char *text)
{
        if (!g->all->is_silent)
                remote_say(g->all->remote, "%s", text);
}

/* ---- reaching the environment ---- */

/* Returns whether another attempt may succeed. None can when the environment is a program, when the token is refused, when what
 * answers is no server, when the options are wrong, or when the machine cannot run farhand. */
static bool is_worth_retry(const struct guest *g, int code)
{
        return !g->all->options.argv && code != -EACCES && code != -EPROTO && code != -EINVAL &&
               code != -ENOEXEC;
}

/* Waits for `ms`. Returns false when the client has gone meanwhile. */
static bool rest(const struct guest *g, unsigned ms)
{
        return poll(&(struct pollfd){ .fd = g->fd, .events = POLLRDHUP }, 1, (int)ms) <= 0;
}

/* Starts the background server again if it has ended, as it does when it has nothing to do. */
static void wake_background(const struct guest *g)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        if (g->all->remote->is_background && !background_url(&a, true, &err))
                tell(g, err.text);
}

/* Tries until the environment is reached. Returns NULL when that fails for good, or the client has gone. */
static struct farhand_link *reach(const struct guest *g, struct farhand_error *ret_error)
{
        uint64_t end = clock_mono_ms() + GUEST_HOLD_MS;
        bool is_ssh = g->all->remote->environment->kind == ENVIRONMENT_SSH;
        unsigned wait_ms = is_ssh ? GUEST_RETRY_SSH_MS : GUEST_RETRY_MS;
        for (bool is_told = false;; is_told = true) {
                wake_background(g);
                struct farhand_link *link = farhand_link_open(&g->all->options, ret_error);
                if (link && is_told)
                        tell(g, "connected again");
                if (link || !is_worth_retry(g, ret_error->code) || clock_mono_ms() >= end)
                        return link;
                if (!is_told) {
                        tell(g, ret_error->text);
                        tell(g, "trying again");
                }
                if (!rest(g, wait_ms)) {
                        ret_error->code = 0; /* nobody is left to be told */
                        return NULL;
                }
                wait_ms = MAX(wait_ms, MIN(2 * wait_ms, (unsigned)GUEST_RETRY_LAST_MS));
        }
}

/* ---- passing bytes on ---- */

/* Puts the answer to the upgrade into the duct to the client. */
static int answer(struct duct *back, const struct guest *g)
{
        _buf_ struct buf head = BUF_INIT(1024);
        char headers[128];
        (void)snprintf(headers, sizeof(headers),
                       "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: %s\r\n",
                       g->accept);
        int r = http_answer_write(&head, &(struct http_answer){ .status = 101, .extra_headers = headers });
        return r == 0 ? duct_put(back, buf_slice(&head)) : r;
}

/* Puts bytes into a duct as if they had just been read. */
static int feed(struct duct *d, struct slice bytes)
{
        _free_ char *copy = slice_dup(bytes); /* `turn` may change the bytes */
        for (size_t at = 0; at < bytes.n; at += DUCT_READ_BYTES) {
                size_t n = MIN(bytes.n - at, DUCT_READ_BYTES);
                int r = d->turn ? d->turn(d->arg, copy + at, n, &d->bytes)
                                : duct_put(d, slice_from(copy + at, n));
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Passes bytes between the client and the environment until one side closes. */
static int pass(const struct guest *g, const struct farhand_link *link)
{
        struct duct there, back;
        struct frames frames;
        const char *said;
        size_t said_bytes = farhand_link_early(link, &said);
        duct_init(&there, g->fd, farhand_link_fd(link));
        duct_init(&back, farhand_link_fd(link), g->fd);
        frames_init(&frames, &back);
        if (farhand_link_is_lines(link)) {
                there.turn = frames_to_lines;
                back.turn = frames_from_lines;
                there.arg = back.arg = &frames;
        }
        int r = answer(&back, g);
        r = r == 0 ? feed(&back, slice_from(said, said_bytes)) : r;
        r = r == 0 ? feed(&there, g->early) : r;
        r = r == 0 ? duct_pair_run(&there, &back) : r;
        frames_release(&frames);
        duct_release(&there);
        duct_release(&back);
        return r;
}

/* ---- the thread ---- */

static void refuse(const struct guest *g, const char *why)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(16384);
        const struct http_answer refusal = {
                .status = 502,
                .content_type = "text/plain; charset=utf-8",
                .body = slice_from_str(printable_str(&a, why)),
                .wants_close = true,
        };
        tell(g, why);
        if (http_answer_write(&out, &refusal) == 0)
                (void)send(g->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Says that nothing more comes, and reads until the client has closed, too: a socket that is closed with unread bytes in it sends a
 * reset, and the client could lose what we have sent before. */
static void leave(int fd)
{
        char dropped[4096];
        uint64_t end = clock_mono_ms() + GUEST_LEAVE_MS, now;
        (void)shutdown(fd, SHUT_WR);
        while ((now = clock_mono_ms()) < end) {
                if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, (int)(end - now)) <= 0)
                        continue;
                ssize_t n = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
                if (n == 0 || (n < 0 && errno != EINTR && !fd_is_passing(errno)))
                        return;
        }
}

static void *run(void *arg)
{
        struct guest *g = arg;
        struct farhand_error error = { 0 };
        struct farhand_link *link = reach(g, &error);
        if (link && pass(g, link) < 0)
                tell(g, "a connection was given up: one side had closed, and the other did not");
        if (!link && error.code)
                refuse(g, error.text);
        leave(g->fd);
        farhand_link_free(link);
        fd_close(g->fd);
        atomic_fetch_sub(&g->all->count, 1);
        free((char *)g->early.p);
        free(g);
        return NULL;
}

int guest_start(struct guests *all, int fd, struct slice key, struct slice early)
{
        pthread_t thread;
        struct guest *g = mem_new(struct guest);
        *g = (struct guest){ .all = all, .fd = fd, .early = slice_from(slice_dup(early), early.n) };
        ws_accept(key, g->accept);
        atomic_fetch_add(&all->count, 1);
        pthread_attr_t attributes;
        int r = pthread_attr_init(&attributes);
        if (r == 0) {
                r = pthread_attr_setstacksize(&attributes, STACK_BYTES);
                r = r ? r : pthread_create(&thread, &attributes, run, g);
                (void)pthread_attr_destroy(&attributes);
        }
        if (r == 0) {
                (void)pthread_detach(thread);
                return 0;
        }
        atomic_fetch_sub(&all->count, 1);
        free((char *)g->early.p);
        free(g);
        return -r;
}
