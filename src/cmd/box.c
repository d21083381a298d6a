/* box: see box.h. */
#include "cmd/box.h"

#include "base/fd.h"
#include "sandbox/prepare.h"

#include <errno.h>

static bool has_guarded(const struct plan *plan)
{
        for (size_t i = 0; i < plan->op_count; i++)
                if (plan->ops[i].is_guarded)
                        return true;
        return false;
}

static int watch_masks(struct box_kept *b, const struct plan *plan, struct err *err)
{
        if (!has_guarded(plan))
                return 0;
        int r = guard_new(&b->guard, err);
        if (r == 0)
                r = guard_hold(b->guard, plan, &b->hold, err);
        if (r < 0 && !err->step) {
                err->step = "guard";
                err->remedy = "raise fs.inotify.max_user_instances or fs.inotify.max_user_watches";
        }
        if (r == 0 && b->hold)
                guard_set_owner(b->guard, b->hold, b);
        return r;
}

static void write_down(struct box_kept *b, const struct plan *plan)
{
        struct err ignored = ERR_INIT;
        if (plan->stub_count == 0)
                return;
        if (journal_open(NULL, &b->journal, &ignored) < 0)
                b->journal = NULL;
        stub_book_enter(&b->book, b->journal, plan, &b->stubs);
}

int box_keep(struct box_kept *b, struct arena *a, const struct profile *profile, const struct place *place,
             enum backend wish, struct err *err)
{
        struct preparer preparer;
        struct plan plan;
        *b = BOX_KEPT_INIT;
        stub_book_init(&b->book);
        if (!profile_must_enforce(profile))
                return 0;
        preparer_init(&preparer, wish);
        b->image_fd = prepare_image(&preparer, a, profile, place, &plan, err);
        preparer_release(&preparer);
        int r = MIN(b->image_fd, 0);
        if (r == 0)
                r = watch_masks(b, &plan, err);
        if (r == 0 && !(b->image = image_map(b->image_fd)))
                r = err_set(err, 0, -ENOMEM, "the sandbox: %s", errno_text(ENOMEM));
        if (r == 0)
                write_down(b, &plan);
        return r;
}

int box_fd(const struct box_kept *b)
{
        return b->guard ? guard_fd(b->guard) : -1;
}

/* A stub may be another command's when it goes, until ours has a lock on it; and ours, when the tree is gone. */
static void on_event(void *owner, enum guard_event event)
{
        struct box_kept *b = owner;
        if (__atomic_load_n(&b->image->is_over, __ATOMIC_SEQ_CST))
                return;
        if (!b->has_started && event != GUARD_BROKEN)
                b->is_suspect = true;
        else if (event != GUARD_LOST || !guard_is_intact(b->image, true))
                b->is_broken = true;
}

void box_look(struct box_kept *b)
{
        guard_read(b->guard, on_event);
}

/* What happened until now is told first: after that every event is about what the command has. */
void box_on_started(struct box_kept *b)
{
        if (b->hold)
                box_look(b);
        b->has_started = true;
        if (b->is_suspect && !guard_is_intact(b->image, false))
                b->is_broken = true;
}

void box_release(struct box_kept *b)
{
        stub_book_strike(&b->book, b->journal, &b->stubs);
        stub_book_release(&b->book);
        b->journal = journal_close(b->journal);
        b->hold = guard_let_go(b->guard, b->hold);
        b->guard = guard_free(b->guard);
        image_unmap(b->image);
        b->image = NULL;
        b->image_fd = b->image_fd >= 0 ? fd_close(b->image_fd) : -1;
}
