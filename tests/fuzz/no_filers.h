/* no_filers: file requests with a sandbox for fuzz_dispatch: every second one is refused, the others run plainly. */
#pragma once

#include "fsop/fsop.h"
#include "proc/spawn.h"
#include "server/filers.h"
#include "server/job.h"

#include <errno.h>

static unsigned filers_asked;

void filers_init(struct filers *f, struct server *s)
{
        *f = (struct filers){ .server = s };
}

void filers_interrupt(UNUSED struct filers *f)
{
}

void filers_release(UNUSED struct filers *f)
{
}

void filers_meet_spawner(UNUSED struct filers *f, UNUSED const struct procs *procs)
{
}

int filers_run(struct job *job, struct jsonw *w, struct err *err)
{
        if (filers_asked++ % 2 == 0)
                return job->class->run(job, w, err);
        return err_set(err, RPC_INTERNAL, -EIO, "fs sandbox helper failed: no");
}

int fs_open_here(const struct filer_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        return fsop_open_regular(how->path.p, how->follow, ret_fd, ret_st, err);
}

int fs_open_file(UNUSED struct job *job, const struct filer_open *how, int *ret_fd, struct stat *ret_st,
                 struct err *err)
{
        return fs_open_here(how, ret_fd, ret_st, err);
}

const struct spawn_filer filer_process = { 0 };

void spawn_set_filer(UNUSED const struct spawn_filer *filer)
{
}

int filers_law(UNUSED struct job *job, UNUSED struct arena *a, UNUSED struct law *ret, UNUSED struct err *err)
{
        return 1; /* none */
}
