/* Writes that meet others: names that move, links and second names of one file, and what is kept when all goes wrong. */
#include "fsop/rig_mount_internal.h"
#include "fsop/write.h"

#include <errno.h>

static struct err err;

static const struct write_options plain = { .is_atomic = true, .follow = true };

static bool holds(const struct rig *rig, const char *name, struct slice content)
{
        _buf_ struct buf b = BUF_INIT(64 << 20);
        return fd_read_file(rig_path(rig, name), 64 << 20, &b) == 0 && slice_eq(buf_slice(&b), content);
}

static struct writer *begin(const struct rig *rig, const char *name, struct write_options o)
{
        struct writer *w;

        err = ERR_INIT;
        eq_int(fsop_write_begin(rig_path(rig, name), &o, &w, NULL, NULL, &err), 0);
        return w;
}

TEST(a_file_that_moved_away_is_not_written_under_its_new_name)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "f", S("old"));
        struct writer *w = begin(&rig, "f", plain);
        eq_int(fsop_write_data(w, S("new content"), &err), 0);
        eq_int(rename(rig_path(&rig, "f"), rig_path(&rig, "moved")), 0);
        rig_directory(&rig, "f"); /* so that the rename fails */
        eq_int(fsop_write_commit(w, NULL, NULL, NULL, &err), -EISDIR);
        ok(holds(&rig, "moved", S("old")));
}
