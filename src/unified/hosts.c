/* hosts: the environments of a table: connects to one when a call needs it, and asks its server about the machine. */
#include "unified/table_internal.h"

#include "approve/permissions.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/uri.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

struct host *host_find(struct unified *u, const char *id)
{
        if (!id)
                return &u->hosts[u->options.default_index];
        for (size_t i = 0; i < u->host_count; i++)
                if (strcmp(u->hosts[i].id, id) == 0)
                        return &u->hosts[i];
        return NULL;
}

static void fail(struct host *h, const char *why)
{
        (void)snprintf(h->error, sizeof(h->error), "%s", why);
        h->state = HOST_FAILED;
}

/* ---- connecting ---- */

/* Returns whether a text is too long for the events, questions and errors in which it will stand. */
static bool is_too_long(const char *text)
{
        return text && strlen(text) > LIMIT_UNIFIED_PATH_BYTES;
}

static void on_environment(UNUSED struct farhand *f, void *arg, struct farhand_environment *info,
                           const struct farhand_error *error)
{
        struct host *h = arg;
        if (h->state != HOST_ASKING) {
                farhand_environment_free(info);
                return;
        }
        if (error && error->rpc_code == 0) { /* the connection is lost for good */
                fail(h, error->text);
                return;
        }
        if (info &&
            (is_too_long(info->cwd) || is_too_long(info->shell_path) || is_too_long(info->shell_name))) {
                farhand_environment_free(info);
                fail(h, "the server tells a path or a name of its machine that is too long");
                return;
        }
        /* The oldest servers do not know environment/info: with them only the options tell the directory. */
        h->info = info;
        h->cwd = h->given_cwd ? h->given_cwd : info ? info->cwd : NULL;
        h->state = HOST_READY;
}

static void on_state(struct farhand *f, void *arg, int state, const char *text)
{
        struct host *h = arg;
        struct farhand_error error;
        if (state == FARHAND_FAILED)
                fail(h, text);
        if (state != FARHAND_READY || h->state != HOST_CONNECTING)
                return;
        h->state = HOST_ASKING;
        h->deadline_ms = clock_mono_ms() + HOST_INFO_MS;
        if (farhand_environment_info_begin(f, on_environment, h, &error) < 0)
                fail(h, error.text);
}

static void begin(struct host *h)
{
        struct farhand_options options = *h->options;
        struct farhand_error error;
        options.on_state = on_state;
        options.on_notification = NULL;
        options.arg = h;
        h->client = farhand_new(&options, &error);
        if (!h->client) {
                fail(h, error.text);
                return;
        }
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = h };
        if (epoll_ctl(h->table->epoll, EPOLL_CTL_ADD, farhand_fd(h->client), &event) < 0) {
                fail(h, errno_text(errno));
                return;
        }
        farhand_pause(h->client, h->table->is_paused);
        h->state = HOST_CONNECTING;
}

enum host_state host_want(struct host *h)
{
        if (h->state == HOST_IDLE)
                begin(h);
        return h->state;
}

void hosts_step(struct unified *u)
{
        uint64_t now = clock_mono_ms();
        for (struct host *h = u->hosts; h < u->hosts + u->host_count; h++) {
                if (h->client && h->state != HOST_FAILED)
                        (void)farhand_step(h->client, NULL); /* a failure is told by on_state */
                if (h->state == HOST_ASKING && now >= h->deadline_ms)
                        fail(h, "the server did not tell about its machine in time");
        }
}

/* Forgets the client, and with it the processes that it knows. */
static void forget_client(struct host *h)
{
        struct exec_session *s;
        list_each (s, &h->table->sessions, link)
                if (s->host == h && s->process) {
                        s->process = NULL;
                        s->is_queried = false;
                        s->has_failed |= !s->is_closed;
                        if (s->failure[0] == '\0')
                                (void)snprintf(s->failure, sizeof(s->failure), "%s", h->error);
                }
        farhand_free(h->client);
        h->client = NULL;
        farhand_environment_free(TAKE(h->info));
        h->cwd = NULL;
        h->state = HOST_IDLE;
}

void hosts_sweep(struct unified *u)
{
        for (struct host *h = u->hosts; h < u->hosts + u->host_count; h++)
                if (h->state == HOST_FAILED)
                        forget_client(h);
}

uint64_t hosts_due_ms(const struct unified *u, uint64_t now_ms)
{
        uint64_t at = UINT64_MAX;
        for (const struct host *h = u->hosts; h < u->hosts + u->host_count; h++) {
                int timeout = h->client ? farhand_timeout_ms(h->client) : -1;
                if (timeout >= 0)
                        at = MIN(at, now_ms + (uint64_t)timeout);
                if (h->state == HOST_ASKING)
                        at = MIN(at, h->deadline_ms);
                if (h->state == HOST_FAILED && !u->is_paused)
                        at = now_ms;
        }
        return at;
}

void host_release(struct host *h)
{
        farhand_free(h->client);
        farhand_environment_free(h->info);
}

/* ---- paths and permissions ---- */

const char *host_path(struct arena *a, const struct host *h, const char *dir)
{
        struct slice path;
        if (dir && dir[0] == '/')
                return uri_to_path(a, slice_from_str(dir), &path, NULL) == URI_OK ? path.p : dir;
        if (!h->cwd)
                return NULL;
        const char *joined = arena_printf(a, "%s/%s", h->cwd, dir ? dir : "");
        return uri_to_path(a, slice_from_str(joined), &path, NULL) == URI_OK ? path.p : joined;
}

/* Returns the roots as a list of JSON strings, in the arena and ending with NULL; NULL: the directory is the only root. */
static const char *const *roots_json(struct arena *a, const struct host *h)
{
        size_t count = 0;
        if (!h->roots)
                return NULL;
        while (h->roots[count])
                count++;
        const char **list = arena_zalloc(a, (count + 1) * sizeof(*list));
        for (size_t i = 0; i < count; i++) {
                _free_ char *path = farhand_path_json(h->client, h->roots[i]);
                list[i] = arena_dup(a, slice_from_str(path));
        }
        return list;
}

/* The directory and the roots are those of the environment, never those of a call: otherwise a call could choose what it may write. */
const char *host_sandbox(struct arena *a, const struct host *h, const char *permissions)
{
        if (!permissions)
                return NULL;
        _free_ char *path = h->cwd ? farhand_path_json(h->client, h->cwd) : NULL;
        _free_ char *text = permissions_sandbox(permissions, path, roots_json(a, h));
        return arena_dup(a, slice_from_str(text));
}
