/* boxes: see boxes.h. */
#include "server/boxes.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/env.h"
#include "proc/process.h"
#include "proto/process.h"
#include "sandbox/image.h"
#include "sandbox/stub.h"
#include "server/server.h"
#include "server/task.h"
#include "wire/rpc.h"

#include <errno.h>
#include <poll.h>

static void end(struct task *t)
{
        if (process_has_exited(t->process)) {
                process_kill_rest(t->process);
                return;
        }
        log_warn("sandbox broken from outside", "session=%.13s proc=%s", t->session->id,
                 log_quote(task_id(t)));
        task_end_now(t, END_SANDBOX);
}

/* A stub may be another command's when it goes, until ours has a lock on it; and ours, when the tree is gone. */
static void on_event(void *owner, enum guard_event event)
{
        struct task *t = owner;
        struct box_made *box = &t->box;
        if (!box->image || __atomic_load_n(&box->image->is_over, __ATOMIC_SEQ_CST))
                return;
        if (!box->has_started && event != GUARD_BROKEN)
                box->is_suspect = true;
        else if (event != GUARD_LOST || !guard_is_intact(box->image, true))
                end(t);
}

/* What happened until now is told first: after that every event is about what the command has. */
void boxes_on_started(struct task *t)
{
        struct boxes *b = &t->session->server->boxes;
        if (!t->box.hold)
                return;
        guard_read(b->guard, on_event);
        t->box.has_started = true;
        if (t->box.is_suspect && !guard_is_intact(t->box.image, false))
                end(t);
}

static void on_guard(void *arg, UNUSED unsigned events)
{
        struct boxes *b = arg;
        guard_read(b->guard, on_event);
}

void boxes_init(struct boxes *b, struct server *server)
{
        struct err err = ERR_INIT;
        *b = (struct boxes){ .server = server };
        preparer_init(&b->preparer, server->config->sandbox_backend);
        stub_book_init(&b->book);
        if (guard_new(&b->guard, &err) < 0) {
                log_warn("no sandbox with masks can be kept", "why=%s", log_quote(slice_from_str(err.text)));
                return;
        }
        b->watch = watch_new(&server->loop, guard_fd(b->guard), on_guard, b);
        watch_set(b->watch, WATCH_READ);
}

void boxes_release(struct boxes *b)
{
        b->watch = watch_free(b->watch);
        b->guard = guard_free(b->guard);
        stub_book_release(&b->book);
        preparer_release(&b->preparer);
}

static int hold(struct boxes *b, const struct plan *plan, struct box_made *ret, struct err *err)
{
        if (b->guard)
                return guard_hold(b->guard, plan, &ret->hold, err);
        for (size_t i = 0; i < plan->op_count; i++) {
                if (!plan->ops[i].is_guarded)
                        continue;
                err->step = "guard";
                err->os_errno = EMFILE;
                err->remedy = "raise fs.inotify.max_user_instances, and start the server again";
                return err_set(err, 0, -EMFILE, "masks cannot be guarded");
        }
        return 0;
}

int boxes_make(struct boxes *b, struct arena *a, const struct process_start *in, const char *const *env,
               struct box_made *ret, struct err *err)
{
        struct slice tmpdir = slice_from_str(env_get(env, "TMPDIR"));
        struct place place = sandbox_context_place(&in->sandbox, in->cwd, tmpdir);
        struct plan plan;
        *ret = BOX_NONE;
        int fd = prepare_image(&b->preparer, a, &in->sandbox.profile, &place, &plan, err);
        int r = fd < 0 ? fd : hold(b, &plan, ret, err);
        if (r == 0 && !(ret->image = image_map(fd)))
                r = err_set(err, 0, -ENOMEM, "%s (os error %d)", errno_text(ENOMEM), ENOMEM);
        if (r == 0) {
                ret->image_fd = fd;
                stub_book_enter(&b->book, b->server->journal, &plan, &ret->stubs);
                return 0;
        }
        fd_close(fd);
        boxes_unmake(b, ret);
        bool is_profile = err->step != NULL; /* otherwise the server has run out of something */
        err->rpc = is_profile ? RPC_INVALID_PARAMS : RPC_INTERNAL;
        if (is_profile && !err->reason) /* otherwise it is the machine, and said in full */
                (void)err_wrap(err, "failed to prepare process sandbox");
        err->reason = is_profile ? "sandboxUnavailable" : NULL;
        return r;
}

/* ---- the end ---- */

#define LEFTOVER_TRIES 100 /* then another command has it: it removes it */
#define LEFTOVER_WAIT_MS 10

/* Stubs are struck from the book on the pool: the journal is a file. */
struct farewell {
        struct work work;
        struct boxes *boxes;
        struct image *image;
        struct stub_entries stubs;
};

/* Spawner and keeper were killed at once: their stubs are ours to remove. A killed keeper's socket closes before its locks
 * do, so that we may be too early. */
static void remove_leftovers(struct image *image)
{
        for (int i = 0; i < LEFTOVER_TRIES; i++) {
                stubs_remove(image, false);
                if (!stubs_exist(image))
                        return;
                (void)poll(NULL, 0, LEFTOVER_WAIT_MS);
        }
}

static void farewell_run(struct work *w)
{
        struct farewell *f = container_of(w, struct farewell, work);
        if (stubs_are_left(f->image))
                remove_leftovers(f->image);
        stub_book_strike(&f->boxes->book, f->boxes->server->journal, &f->stubs);
}

static void farewell_done(struct work *w)
{
        struct farewell *f = container_of(w, struct farewell, work);
        image_unmap(f->image);
        free(f->stubs.list); /* of one that the pool did not run any more */
        free(f);
}

void boxes_unmake(struct boxes *b, struct box_made *made)
{
        fd_close(made->image_fd);
        (void)guard_let_go(b->guard, made->hold);
        if (made->stubs.count > 0) {
                struct farewell *f = mem_new(struct farewell);
                *f = (struct farewell){ .work = { .run = farewell_run, .done = farewell_done },
                                        .boxes = b,
                                        .image = made->image,
                                        .stubs = made->stubs };
                if (b->server->pool) {
                        pool_submit(b->server->pool, &f->work);
                } else { /* the server is ending */
                        farewell_run(&f->work);
                        farewell_done(&f->work);
                }
        } else {
                image_unmap(made->image);
        }
        *made = BOX_NONE;
}
