/* no_fs_helpers: file requests with a sandbox for fuzz_dispatch: every second one is refused, the others run plainly. */
#pragma once

#include "confine/fs_helpers.h"
#include "fsop/fsop.h"
#include "fsop/quick.h"
#include "proc/spawn.h"
#include "wire/rpc.h"

#include <errno.h>

static unsigned fs_helpers_asked;

void fs_helpers_init(struct fs_helpers *f, UNUSED struct loop *loop, struct preparer *preparer,
                     const char *tmpdir)
{
        *f = (struct fs_helpers){ .preparer = preparer, .tmpdir = tmpdir };
}

void fs_helpers_interrupt(UNUSED struct fs_helpers *f)
{
}

void fs_helpers_release(UNUSED struct fs_helpers *f)
{
}

void fs_helpers_note_spawner(UNUSED struct fs_helpers *f, UNUSED const struct procs *procs)
{
}

/* Every second sandbox reads everything, and hides nothing. */
bool fs_helpers_reads_all(UNUSED struct fs_helpers *f, UNUSED const struct sandbox_context *sandbox,
                          struct quick_fence *ret)
{
        *ret = (struct quick_fence){ 0 };
        return fs_helpers_asked % 2 == 0;
}

int fs_helpers_run(UNUSED struct fs_helpers *f, struct file_request *r, struct jsonw *w, struct err *err)
{
        if (!r->sandbox || fs_helpers_asked++ % 2 == 0)
                return r->method->run(r, w, err);
        return err_set(err, RPC_INTERNAL, -EIO, "fs sandbox helper failed: no");
}

int file_open(const struct file_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        return fsop_open_regular(how->path.p, how->follows, ret_fd, ret_st, err);
}

int fs_helpers_open(UNUSED struct fs_helpers *f, UNUSED struct file_request *r, const struct file_open *how,
                    int *ret_fd, struct stat *ret_st, struct err *err)
{
        return file_open(how, ret_fd, ret_st, err);
}

const struct spawn_fs_helper fs_helper_process = { 0 };

void spawn_set_fs_helper(UNUSED const struct spawn_fs_helper *fs_helper)
{
}

int fs_helpers_reach(UNUSED struct fs_helpers *f, UNUSED const struct file_request *r, UNUSED struct arena *a,
                     UNUSED struct reach *ret, UNUSED struct err *err)
{
        return 1; /* there is no reach */
}
