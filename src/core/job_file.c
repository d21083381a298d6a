/* job_file: jobs whose work is a file request (files/request.h). The thread of the job does the work, or an fs helper when the
 * request has a sandbox. */
#include "confine/fs_helpers.h"
#include "core/job.h"
#include "core/server.h"
#include "plan/mount_table.h"

struct file_request job_file_request(struct job *job)
{
        return (struct file_request){
                .method = job->method,
                .params = job->params,
                .sandbox = job->sandbox,
                .is_change = job->is_change || job->method->asks_changes,
                .arena = &job->arena,
                .journal = job->server->journal,
                .max_message = job->max_message,
        };
}

int job_open_file(struct job *job, const struct file_open *how, int *ret_fd, struct stat *ret_st,
                  struct err *err)
{
        struct file_request request = job_file_request(job);
        int r = fs_helpers_open(&job->server->fs_helpers, &request, how, ret_fd, ret_st, err);
        job->error_data = request.error_data;
        return r;
}

static int run(struct job *job, struct jsonw *w, struct err *err)
{
        struct file_request request = job_file_request(job);
        int r = fs_helpers_run(&job->server->fs_helpers, &request, w, err);
        job->error_data = request.error_data;
        return r;
}

void job_try_quick(struct job *job, struct slice path, bool follow, bool reads)
{
        struct quick_trial *trial = job->trial;
        _mount_table_ struct mount_table *mounts = NULL;
        struct err ignored = ERR_INIT;
        quick_try(trial, path.p, follow, reads);
        if (!trial->is_made || mount_tables_get(job->server->confine.preparer.mounts, &mounts, &ignored) < 0)
                return;
        const struct mount_entry *entry = mount_table_find(mounts, (uint64_t)trial->mount.id);
        trial->mount.is_single = entry && !entry->has_twin;
}

static enum quick_answer run_quick(struct job *job, struct jsonw *w)
{
        return job->method->quick->run(job->params, &job->server->quick, w);
}

static void try_quick(struct job *job)
{
        struct slice path;
        bool follow, reads;
        job->method->quick->target(job->params, &path, &follow, &reads);
        job_try_quick(job, path, follow, reads);
}

static const struct job_class file_class = { .run = run };
static const struct job_class quick_file_class = { .run = run,
                                                   .run_quick = run_quick,
                                                   .try_quick = try_quick };

const struct job_class *job_class_of(const struct method *m)
{
        return m->job ? m->job : m->quick ? &quick_file_class : &file_class;
}
