/* server: starts a server as a child of this program. The server ends when this program ends.
 *
 * The child's stdin and stdout are one end of a socket, and this program holds the other. The child prints its URL to the socket,
 * and watches it: when our end is closed, by us or by the kernel after our death, the child ends.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "client/error.h"
#include "transport/child.h"
#include "transport/endpoint.h"
#include "transport/programs.h"
#include "wire/listen_url.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

_Static_assert(__builtin_strcmp(FARHAND_DEFAULT_LISTEN_URL, LISTEN_URL_DEFAULT) == 0,
               "the header tells the default");

#define START_TIMEOUT_MS 10000
#define END_PATIENCE_MS 5000 /* longer than the server gives its commands to end */
#define GONE_PATIENCE_MS 1000
#define LINE_MAX_BYTES 512
#define ARGS_MAX 256

struct farhand_server {
        pid_t pid;
        int fd;
        char *url; /* NULL: the server speaks on its stdio */
};

int farhand_listen_url_check(const char *text, struct farhand_error *ret_error)
{
        struct listen_url url = { 0 };
        struct err err = ERR_INIT;
        int r = listen_url_parse(text, &url, &err);
        listen_url_release(&url);
        return r < 0 ? error_from_err(ret_error, &err) : 0;
}

static int start(struct farhand_server *s, const struct farhand_server_options *o, bool is_stdio,
                 struct err *err)
{
        _free_ char *program = programs_farhand(o->farhand);
        const char *argv[ARGS_MAX + 9] = { program, "serve", "--log-level", "error" };
        size_t n = 4;
        for (size_t i = 0; o->args && o->args[i]; i++) {
                if (i == ARGS_MAX)
                        return err_set(err, 0, -E2BIG, "a server has at most %d options", ARGS_MAX);
                argv[n++] = o->args[i];
        }
        argv[n++] = "--listen";
        argv[n++] = o->listen;
        if (!is_stdio) {
                argv[n++] = "--lifeline";
                argv[n++] = "0";
        }
        struct child_spec spec = { .argv = argv, .env = o->env, .cwd = o->cwd, .is_apart = true };
        return child_start(&spec, &s->fd, &s->pid, err);
}

/* Reaps a server that ended before it printed its URL, and fills the error. */
static int fail_ended(struct farhand_server *s, struct err *err)
{
        s->fd = fd_close(s->fd);
        int status = child_end(s->pid, GONE_PATIENCE_MS);
        s->pid = 0;
        if (status >= 0 && WIFEXITED(status))
                return err_set(err, 0, -ECONNRESET, "the server ended before it listened (exit status %d)",
                               WEXITSTATUS(status));
        return err_set(err, 0, -ECONNRESET, "the server ended before it listened");
}

/* Reads the line that the server prints. The started program may be any program, so the length of the line and the wait have a
 * limit. */
static int read_line(struct farhand_server *s, unsigned timeout_ms, char ret[LINE_MAX_BYTES], struct err *err)
{
        size_t n = 0;
        uint64_t end = clock_mono_ms() + (timeout_ms ? timeout_ms : START_TIMEOUT_MS);
        while (n < LINE_MAX_BYTES) {
                uint64_t now = clock_mono_ms();
                if (now >= end)
                        return err_set(err, 0, -ETIMEDOUT, "the server did not begin to listen in time");
                (void)poll(&(struct pollfd){ .fd = s->fd, .events = POLLIN }, 1,
                           (int)MIN(end - now, (uint64_t)INT32_MAX));
                ssize_t got = read(s->fd, ret + n, LINE_MAX_BYTES - n);
                if (got < 0 && (errno == EINTR || fd_is_passing(errno)))
                        continue;
                if (got <= 0)
                        return fail_ended(s, err);
                char *stop = memchr(ret + n, '\n', (size_t)got);
                if (stop) {
                        *stop = '\0';
                        return 0;
                }
                n += (size_t)got;
        }
        return err_set(err, 0, -EPROTO, "the program that was started is no server: it printed no URL");
}

/* Waits for the URL that the server prints. Its kind must be the one that was asked for. */
static int learn_url(struct farhand_server *s, const struct farhand_server_options *o, enum listen_kind kind,
                     struct err *err)
{
        char line[LINE_MAX_BYTES];
        struct endpoint endpoint = { 0 };
        struct err ignored = ERR_INIT;
        int r = read_line(s, o->start_timeout_ms, line, err);
        if (r < 0)
                return r;
        r = endpoint_parse(line, &endpoint, &ignored);
        bool is_ours = r == 0 && endpoint.kind == (kind == LISTEN_UNIX ? ENDPOINT_UNIX : ENDPOINT_TCP);
        endpoint_release(&endpoint);
        if (!is_ours)
                return err_set(err, 0, -EPROTO,
                               "the program that was started is no server: it printed no URL");
        s->url = mem_strdup(line);
        return 0;
}

static int set_up(struct farhand_server *s, const struct farhand_server_options *given, struct err *err)
{
        struct farhand_server_options o = { 0 };
        if (given && given->size < sizeof(o.size) + sizeof(o.listen))
                return err_set(err, 0, -EINVAL,
                               "struct farhand_server_options has no size: use FARHAND_SERVER_OPTIONS_INIT");
        if (given)
                memcpy(&o, given, MIN(given->size, sizeof(o)));
        if (!o.listen)
                o.listen = FARHAND_DEFAULT_LISTEN_URL;
        if (strchr(o.listen, '\n')) /* a path may hold a line end, but then the URL would not be one line */
                return err_set(err, 0, -EINVAL, "the URL to listen on has a line end");
        struct listen_url url = { 0 };
        int r = listen_url_parse(o.listen, &url, err);
        enum listen_kind kind = url.kind;
        listen_url_release(&url);
        if (r == 0)
                r = start(s, &o, kind == LISTEN_STDIO, err);
        return r == 0 && kind != LISTEN_STDIO ? learn_url(s, &o, kind, err) : r;
}

struct farhand_server *farhand_server_start(const struct farhand_server_options *options,
                                            struct farhand_error *ret_error)
{
        struct farhand_server *s = mem_new(struct farhand_server);
        struct err err = ERR_INIT;
        s->fd = -1;
        if (set_up(s, options, &err) == 0)
                return s;
        error_from_err(ret_error, &err);
        (void)child_end(s->pid, 0); /* no client uses the server yet, so it need not end gracefully */
        s->pid = 0;
        farhand_server_free(s);
        return NULL;
}

const char *farhand_server_url(const struct farhand_server *s)
{
        return s->url;
}

int farhand_server_fd(const struct farhand_server *s)
{
        return s->url ? -1 : s->fd;
}

void farhand_server_free(struct farhand_server *s)
{
        if (!s)
                return;
        fd_close(s->fd);
        (void)child_end(s->pid, END_PATIENCE_MS);
        free(s->url);
        free(s);
}
