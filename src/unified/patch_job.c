/* patch_job: a thread that applies a patch, with a client of its own, because a patch takes many requests and waits for the answers. */
#include "unified/table_internal.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void apply(struct patch_job *j)
{
        struct farhand_error error;
        struct patch patch;
        struct patch_error bad;
        must(patch_parse(&j->strings, j->text, &patch, &bad) == 0); /* the call has parsed the same text */
        struct farhand *f = farhand_connect(&j->connection, &error);
        if (!f) {
                (void)snprintf(j->error, sizeof(j->error), "%s", error.text);
                return;
        }
        if (j->is_look)
                (void)patch_look(f, &patch, &j->options, &j->result);
        else
                (void)patch_apply(f, &patch, &j->options, &j->result);
        farhand_free(f);
}

static void *run(void *arg)
{
        struct patch_job *j = arg;
        int wake = j->wake;
        apply(j);
        atomic_store(&j->is_done, true);
        fd_signal(wake); /* not j->wake: from now on the loop may free the job */
        return NULL;
}

static const char *copy(struct patch_job *j, const char *text)
{
        return text ? arena_dup(&j->strings, slice_from_str(text)) : NULL;
}

static const char *const *copy_list(struct patch_job *j, const char *const *list)
{
        size_t n = 0;
        while (list && list[n])
                n++;
        const char **ret = arena_zalloc(&j->strings, (n + 1) * sizeof(*ret));
        for (size_t i = 0; i < n; i++)
                ret[i] = copy(j, list[i]);
        return list ? ret : NULL;
}

/* The job has copies of everything: the call and its approval may end before the thread does. */
static struct patch_job *start(struct unified_call *c, bool is_look, const char *sandbox,
                               const char *const *real_paths)
{
        struct unified *u = c->table;
        struct patch_job *j = mem_new(struct patch_job);
        char *text = arena_dup(&j->strings, c->patch.input);
        j->host = c->host;
        j->call = c;
        j->text = slice_from(text, c->patch.input.n);
        j->options = (struct patch_options){
                .cwd = copy(j, c->cwd),
                .sandbox = copy(j, sandbox),
                .state_dir = copy(j, u->options.state_dir),
                .environment_key = copy(j, c->host->key),
                .real_paths = copy_list(j, real_paths),
        };
        j->is_look = is_look;
        j->wake = u->wake;
        j->connection = *c->host->options;
        j->connection.on_state = NULL;
        j->connection.on_notification = NULL;
        list_append(&u->jobs, &j->link);
        if (pthread_create(&j->thread, NULL, run, j) == 0) {
                c->host->job = j;
                return j;
        }
        list_remove(&j->link);
        arena_release(&j->strings);
        free(j);
        return NULL;
}

struct patch_job *patch_job_start(struct unified_call *c)
{
        const char *sandbox = host_sandbox(&c->strings, c->host, approval_permissions(c->approval));
        return start(c, false, sandbox, approval_real_paths(c->approval));
}

struct patch_job *patch_job_look(struct unified_call *c)
{
        return start(c, true, NULL, NULL);
}

static void free_job(struct patch_job *j)
{
        list_remove(&j->link);
        if (j->error[0] == '\0')
                patch_result_release(&j->result);
        arena_release(&j->strings);
        free(j);
}

/* Waits for the thread, which has ended or ends in a moment. */
static void join(struct patch_job *j)
{
        (void)pthread_join(j->thread, NULL);
        j->host->job = NULL;
        list_remove(&j->link);
        list_init(&j->link);
}

void patch_jobs_collect(struct unified *u)
{
        uint64_t count;
        struct patch_job *j;
        (void)!read(u->wake, &count, sizeof(count));
        list_each (j, &u->jobs, link) {
                if (!atomic_load(&j->is_done))
                        continue;
                join(j);
                u->is_due = true; /* another patch of this environment may begin */
                if (!j->call)
                        free_job(j);
        }
}

void patch_job_release(struct patch_job *j)
{
        if (j->host->job == j)
                j->call = NULL; /* the job goes on without a call, and is freed when it is done */
        else
                free_job(j);
}

/* Waits with a time limit, because a server may never answer. The job of a thread that still runs then is not freed. */
bool patch_jobs_finish(struct unified *u)
{
        struct timespec end;
        bool is_alone = true;
        (void)clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += LIMIT_UNIFIED_PATCH_END_MS / 1000;
        while (!list_is_empty(&u->jobs)) {
                struct patch_job *j = list_first(&u->jobs, struct patch_job, link);
                list_remove(&j->link);
                list_init(&j->link);
                if (pthread_timedjoin_np(j->thread, NULL, &end) == 0) {
                        free_job(j);
                        continue;
                }
                (void)pthread_detach(j->thread);
                is_alone = false;
        }
        return is_alone;
}
