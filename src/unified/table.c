/* table: makes a table from its options, frees it, and does what is due in it. */
#include "unified/table_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static void make_hosts(struct unified *u, const struct unified_options *o)
{
        u->hosts = arena_zalloc(&u->strings, o->environment_count * sizeof(*u->hosts));
        u->host_count = o->environment_count;
        for (size_t i = 0; i < o->environment_count; i++) {
                const struct unified_environment *e = &o->environments[i];
                u->hosts[i] = (struct host){
                        .table = u,
                        .id = arena_dup(&u->strings, slice_from_str(e->id)),
                        .options = e->options,
                        .is_local = e->is_local,
                        .given_cwd = e->cwd ? arena_dup(&u->strings, slice_from_str(e->cwd)) : NULL,
                        .key = arena_dup(&u->strings, slice_from_str(e->key ? e->key : e->id)),
                };
        }
        u->options.environments = NULL; /* the caller may free its list */
        if (o->state_dir)
                u->options.state_dir = arena_dup(&u->strings, slice_from_str(o->state_dir));
}

/* Makes the epoll descriptor and the eventfd of the table. Returns 0 or -errno. */
static int open_descriptors(struct unified *u)
{
        u->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        u->epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = { .events = EPOLLIN };
        if (u->wake < 0 || u->epoll < 0 || epoll_ctl(u->epoll, EPOLL_CTL_ADD, u->wake, &event) < 0)
                return -errno;
        return 0;
}

struct unified *unified_new(const struct unified_options *options, struct err *err)
{
        (void)random_hash_key(); /* makes the key before threads that apply patches use it */
        struct unified *u = mem_new(struct unified);
        int r = open_descriptors(u);
        if (r < 0) {
                (void)err_set(err, 0, r, "epoll: %s", errno_text(r));
                fd_close(u->wake);
                fd_close(u->epoll);
                free(u);
                return NULL;
        }
        u->options = *options;
        if (u->options.poll_most_ms == 0)
                u->options.poll_most_ms = POLL_MOST_MS;
        list_init(&u->sessions);
        list_init(&u->calls);
        list_init(&u->jobs);
        list_init(&u->filing_requests);
        make_hosts(u, options);
        return u;
}

void unified_free(struct unified *u)
{
        if (!u)
                return;
        while (!list_is_empty(&u->calls))
                unified_call_free(list_first(&u->calls, struct unified_call, link));
        bool is_alone = patch_jobs_finish(u);
        unified_end_sessions(u);
        hosts_step(u); /* sends the requests to end what still runs */
        while (!list_is_empty(&u->sessions))
                exec_session_free(list_first(&u->sessions, struct exec_session, link));
        for (size_t i = 0; i < u->host_count; i++)
                host_release(&u->hosts[i]);
        filing_requests_release(u);
        fd_close(u->epoll);
        if (is_alone)
                fd_close(u->wake);
        arena_release(&u->strings);
        arena_release(&u->workspace);
        free(u);
}

void unified_set_workspace(struct unified *u, const char *const *roots)
{
        struct arena old = u->workspace;
        size_t count = 0;
        u->workspace = ARENA_INIT;
        while (roots[count])
                count++;
        const char **copy = arena_zalloc(&u->workspace, (count + 1) * sizeof(*copy));
        for (size_t i = 0; i < count; i++)
                copy[i] = arena_dup(&u->workspace, slice_from_str(roots[i]));
        for (struct host *h = u->hosts; h < u->hosts + u->host_count; h++) {
                if (!h->is_local)
                        continue;
                h->given_cwd = copy[0];
                h->roots = copy;
                if (h->state == HOST_READY)
                        h->cwd = copy[0];
        }
        arena_release(&old);
}

int unified_fd(const struct unified *u)
{
        return u->epoll;
}

int unified_timeout_ms(const struct unified *u)
{
        uint64_t now = clock_mono_ms(), at = hosts_due_ms(u, now);
        if (!u->is_paused) {
                if (u->is_due)
                        return 0;
                at = MIN(at, exec_sessions_due_ms(u));
                at = MIN(at, unified_calls_due_ms(u));
        }
        return at == UINT64_MAX ? -1 : at <= now ? 0 : (int)MIN(at - now, (uint64_t)INT32_MAX);
}

void unified_step(struct unified *u)
{
        u->is_due = false;
        hosts_step(u);
        patch_jobs_collect(u);
        exec_sessions_advance(u); /* the end of a process is told before the result of its call */
        unified_calls_advance(u);
        exec_sessions_advance(u);
        /* Calls that wait for an environment must have seen why it has failed. */
        if (!u->is_paused)
                hosts_sweep(u);
}

void unified_pause(struct unified *u, bool is_paused)
{
        if (u->is_paused == is_paused)
                return;
        u->is_paused = is_paused;
        u->is_due |= !is_paused;
        for (size_t i = 0; i < u->host_count; i++)
                if (u->hosts[i].client)
                        farhand_pause(u->hosts[i].client, is_paused);
}
