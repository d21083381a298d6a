/* confine: makes sandboxes for commands, has them guarded, and keeps the book of their placeholders up to date. */
#include "confine/confine.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "fsop/journal.h"
#include "fsop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Are all processes of the sandbox gone? This is noted before the placeholders are removed, so that their removal is not
 * taken for a breach. */
static bool is_over(const struct image *i)
{
        return __atomic_load_n(&i->is_over, __ATOMIC_SEQ_CST);
}

bool guarded_was_broken(const struct guarded *g)
{
        return g->image && __atomic_load_n(&g->image->is_broken, __ATOMIC_SEQ_CST);
}

/* Handles an event of the guard. A removed placeholder proves nothing before our command has started (it may have belonged to
 * another command), nor after the processes of our command are gone (then it was removed on purpose). */
static void on_event(void *owner, enum guard_event event)
{
        struct guarded *g = owner;
        if (!g->image || is_over(g->image))
                return;
        if (!g->has_started && event != GUARD_BROKEN)
                g->is_suspect = true;
        else if (event != GUARD_LOST || (!guard_is_intact(g->image, true) && !is_over(g->image)))
                g->on_broken(g);
}

/* From now on the guard of the sandbox reports to `g`. */
void confine_begin(struct confine *c, struct guarded *g, void (*on_broken)(struct guarded *g))
{
        g->on_broken = on_broken;
        if (g->hold)
                guard_set_owner(c->guard, g->hold, g);
}

/* Events from before the start are read first: every later event is about the sandbox that the command is in. */
void confine_started(struct confine *c, struct guarded *g)
{
        if (g->hold)
                confine_look(c);
        g->has_started = true;
        if (!g->hold)
                return;
        guard_allow_missing(c->guard, g->hold, g->image);
        if (g->is_suspect && !guard_is_intact(g->image, false) && !is_over(g->image))
                g->on_broken(g);
}

void confine_let_go(struct confine *c, struct guarded *g)
{
        g->hold = guard_let_go(c->guard, g->hold);
}

int confine_fd(const struct confine *c)
{
        return c->guard ? guard_fd(c->guard) : -1;
}

void confine_look(struct confine *c)
{
        guard_read(c->guard, on_event);
}

static void on_guard(void *arg, UNUSED unsigned events)
{
        confine_look(arg);
}

/* Hides a state directory from all sandboxes: commands must not reach the journal and the locks in it. A directory below
 * /dev/shm needs no mask, because each sandbox has a /dev of its own, unless /dev/shm is a link to another place. */
static void hide_place(struct preparer *p, const char *path)
{
        char above[PATH_MAX];
        bool is_in_dev = slice_starts(slice_from_str(path), S("/dev/"));
        if (is_in_dev && realpath("/dev/shm", above))
                is_in_dev = slice_starts(slice_from_str(above), S("/dev/"));
        if (!is_in_dev)
                preparer_add_closed(p, path);
}

static int find_locks(struct placeholder_locks *ret, struct err *err)
{
        int r = -ENOENT;
        for (unsigned n = 0; n < STATE_DIRECTORIES && r < 0; n++) {
                char path[PATH_MAX];
                struct err why = ERR_INIT;
                r = state_directory(n, path, &why);
                _close_ int fd = r < 0 ? -1 : state_open(path, &why);
                if (r == 0)
                        r = fd < 0 ? fd : placeholder_locks_open(path, ret, &why);
                if (r < 0 && n == 0)
                        *err = why; /* the client learns why the first choice does not work */
        }
        return r;
}

/* State that outlives commands lies in a directory that no sandbox shows (fsop/state.h). It is made when it is first needed. */
static void use_state(struct preparer *p)
{
        char path[PATH_MAX];
        struct err ignored = ERR_INIT;
        for (unsigned n = 0; n < STATE_DIRECTORIES; n++)
                if (state_directory(n, path, &ignored) == 0)
                        hide_place(p, path);
        /* The journals of patches are in this directory, with contents of files that no sandbox may read. For users other than root
         * it is the first choice of state_directory, which is hidden already. */
        if (geteuid() == 0 && state_directory_of_user(path, &ignored) == 0)
                hide_place(p, path);
        preparer_set_locks_find(p, find_locks);
}

/* ---- placeholders that could not be removed ---- */

static void retry_run(struct work *w)
{
        struct confine *c = container_of(w, struct confine, retry);
        placeholder_book_retry(&c->book, c->journal, &c->preparer);
}

static void retry_later(struct confine *c)
{
        if (c->is_retrying || !c->pool || placeholder_book_stuck(&c->book) == 0)
                return;
        c->is_retrying = true;
        timer_start(c->retry_timer, LIMIT_STUCK_RETRY_MS);
}

static void retry_done(struct work *w)
{
        struct confine *c = container_of(w, struct confine, retry);
        c->is_retrying = false;
        retry_later(c);
}

static void on_retry(void *arg)
{
        struct confine *c = arg;
        if (!c->pool) /* the server is ending: the next server finds the placeholders in the journal */
                return;
        c->retry = (struct work){ .run = retry_run, .done = retry_done };
        pool_submit(c->pool, &c->retry);
}

/* ---- opening and closing a struct confine ---- */

static void guard_open(struct confine *c)
{
        struct err err = ERR_INIT;
        int r = guard_new(&c->guard, &err);
        if (r == 0) {
                r = guard_start(c->guard);
                if (r < 0)
                        log_warn("broken sandboxes are ended by the loop, which may be busy", "why=%s",
                                 log_quote(slice_from_str(errno_text(r))));
                r = watch_new(c->loop, guard_fd(c->guard), WATCH_READ, on_guard, c, &c->watch);
                if (r < 0) {
                        c->guard = guard_free(c->guard);
                        (void)err_set(&err, 0, r, "%s", errno_text(r));
                }
        }
        if (r < 0)
                log_warn("no sandbox with masks can be kept", "why=%s", log_quote(slice_from_str(err.text)));
}

void confine_init(struct confine *c, struct loop *loop, struct pool *pool, enum backend wish)
{
        *c = (struct confine){ .loop = loop, .pool = pool };
        preparer_init(&c->preparer, wish);
        use_state(&c->preparer);
        placeholder_book_init(&c->book);
        if (!loop)
                return;
        c->retry_timer = timer_new(loop, on_retry, c);
        guard_open(c);
}

void confine_release(struct confine *c)
{
        c->watch = watch_free(c->watch);
        c->guard = guard_free(c->guard);
        c->retry_timer = timer_free(c->retry_timer);
        placeholder_book_release(&c->book);
        if (!c->loop)
                c->journal = journal_close(c->journal);
        preparer_release(&c->preparer);
}

/* ---- making a sandbox ---- */

static bool has_guarded(const struct plan *plan)
{
        for (size_t i = 0; i < plan->op_count; i++)
                if (plan->ops[i].is_guarded)
                        return true;
        return false;
}

/* Without a loop there is a single command. Its guard and its journal are made only if its plan needs them. */
static void make_guard_and_journal(struct confine *c, const struct plan *plan)
{
        struct err ignored = ERR_INIT;
        if (c->loop)
                return;
        if (!c->guard && has_guarded(plan) && guard_new(&c->guard, &ignored) == 0)
                (void)guard_start(c->guard); /* without its thread the caller ends the command */
        if (!c->journal && plan->placeholder_count > 0 && journal_open(NULL, &c->journal, &ignored) < 0)
                c->journal = NULL;
}

static int hold(struct confine *c, const struct plan *plan, struct guarded *ret, struct err *err)
{
        if (c->guard)
                return guard_hold(c->guard, plan, ret->image, &ret->hold, err);
        if (!has_guarded(plan))
                return 0;
        err->step = "guard";
        err->os_errno = EMFILE;
        err->remedy = c->loop ? "raise fs.inotify.max_user_instances, and start the server again"
                              : "raise fs.inotify.max_user_instances";
        return err_set(err, 0, -EMFILE, "masks cannot be guarded");
}

static int make(struct confine *c, struct arena *a, const struct profile *profile, const struct place *place,
                struct guarded *ret, struct plan *ret_plan, struct err *err)
{
        *ret = GUARDED_NONE;
        int fd = prepare_image(&c->preparer, a, profile, place, ret_plan, err);
        int r = MIN(fd, 0);
        if (r == 0 && !(ret->image = image_map(fd)))
                r = err_set(err, 0, -ENOMEM, "%s (os error %d)", errno_text(ENOMEM), ENOMEM);
        if (r == 0) {
                make_guard_and_journal(c, ret_plan);
                r = hold(c, ret_plan, ret, err);
        }
        if (r == 0) {
                ret->image_fd = fd;
                placeholder_book_enter(&c->book, c->journal, ret_plan, &ret->placeholders);
                return 0;
        }
        fd_close(fd);
        confine_unmake(c, ret);
        return r;
}

int confine_make(struct confine *c, struct arena *a, const struct profile *profile, const struct place *place,
                 struct guarded *ret, struct plan *ret_plan, struct err *err)
{
        for (int i = 0;; i++) {
                struct err why = ERR_INIT;
                int r = make(c, a, profile, place, ret, ret_plan, &why);
                if (r < 0)
                        *err = why;
                if (r >= 0 || why.os_errno != ESTALE || i == LIMIT_START_AGAIN)
                        return r;
        }
}

/* ---- ending a sandbox ---- */

/* The end of a sandbox with placeholders. It runs on the pool, because the journal is a file and writing may block. */
struct ending {
        struct work work;
        struct confine *confine;
        struct image *image;
        struct placeholder_entries placeholders;
};

static void ending_run(struct work *w)
{
        struct ending *f = container_of(w, struct ending, work);
        placeholder_book_strike(&f->confine->book, f->confine->journal, &f->placeholders, f->image);
}

static void ending_done(struct work *w)
{
        struct ending *f = container_of(w, struct ending, work);
        retry_later(f->confine);
        image_unmap(f->image);
        free(f->placeholders.list); /* ending_run frees the list, unless the pool ended before that */
        free(f);
}

void confine_unmake(struct confine *c, struct guarded *made)
{
        fd_close(made->image_fd);
        (void)guard_let_go(c->guard, made->hold);
        if (made->placeholders.count > 0) {
                struct ending *f = mem_new(struct ending);
                *f = (struct ending){ .work = { .run = ending_run, .done = ending_done },
                                      .confine = c,
                                      .image = made->image,
                                      .placeholders = made->placeholders };
                if (c->pool) {
                        pool_submit(c->pool, &f->work);
                } else { /* the server is ending */
                        ending_run(&f->work);
                        ending_done(&f->work);
                }
        } else {
                image_unmap(made->image);
        }
        *made = GUARDED_NONE;
}
