/* commit: carries out changes, and takes them back when one of them fails. */
#include "patch/commit.h"

#include "patch/act.h"
#include "patch/restore.h"

#include <errno.h>

#define WHOLE_MAX ((uint64_t)64 * 1024 * 1024) /* what one request can carry */

#define NO_JOURNAL "the journal cannot be written"

/* The requests of one change. */
struct doing {
        struct act renamed; /* the old file, aside */
        struct act written;
        struct look aside, now;
};

static int fail(struct commit *ret, const struct change *c, const struct failure *failure)
{
        ret->change = c;
        ret->failure = failure;
        ret->is_conflict = failure && failure->is_conflict;
        return -EIO;
}

static int fail_conflict(struct commit *ret, const struct change *c)
{
        ret->change = c;
        ret->is_conflict = true;
        return -EIO;
}

static const struct failure *refusal(struct arena *a, const char *text)
{
        struct failure *f = arena_new(a, struct failure);
        f->text = text;
        return f;
}

/* ---- large files ---- */

/* Sends a file in one request after all: the server then keeps its owner and its links, which a rename would not. */
static int send_whole(struct asks *s, struct change *c, struct commit *ret)
{
        struct act removed = { 0 };
        struct err err = ERR_INIT;
        struct slice text;
        act_remove(s, &removed, c->temp, true);
        asks_wait(s);
        if (c->fresh->size > WHOLE_MAX)
                return fail(ret, c,
                            refusal(s->arena, "a file of this size cannot keep its owner and its links"));
        if (content_load(s->arena, s, c->fresh, WHOLE_MAX, &text, &err) < 0)
                return fail(ret, c, refusal(s->arena, arena_dup(s->arena, slice_from_str(err.text))));
        c->temp = NULL;
        c->fresh = content_from_text(s->arena, text);
        state_set_content(&c->after, text);
        c->is_in_place = c->before.links > 1;
        return 0;
}

/* Streams the new content of a large file to its temporary file. */
static int prepare(struct asks *s, struct change *c, struct commit *ret)
{
        const struct failure *failure;
        struct look look = { .path = c->temp };
        bool is_replacing = c->before.kind == FILE_REGULAR && !c->aside;
        if (is_replacing && c->before.links > 1)
                return send_whole(s, c, ret);
        if (act_stream(s, c->temp, c->fresh, c->after.has_mode, c->after.mode, &failure) < 0)
                return fail(ret, c, failure);
        look_now(s, &look);
        if (look.failure || look.state.kind != FILE_REGULAR)
                return fail(ret, c, look.failure);
        if (is_replacing && (look.state.uid != c->before.uid || look.state.gid != c->before.gid))
                return send_whole(s, c, ret);
        c->after.modified_ms = look.state.modified_ms;
        return 0;
}

/* ---- one change ---- */

static void send_write(struct asks *s, struct change *c, struct doing *d)
{
        bool is_new = c->before.kind != FILE_REGULAR || c->aside;
        bool has_other_mode =
                !is_new && c->after.has_mode && c->before.has_mode && c->after.mode != c->before.mode;
        if (c->after.kind == FILE_LINK) {
                act_link(s, &d->written, c->path, c->after.target ? c->after.target : "");
        } else if (c->temp) {
                act_rename(s, &d->written, c->temp, c->path, !is_new);
        } else {
                act_write(s, &d->written, c->path, c->fresh->text, is_new ? ACT_ABSENT : ACT_SAME, &c->before,
                          is_new && c->after.has_mode ? (int)c->after.mode : -1);
                if (has_other_mode)
                        act_set_mode(s, &d->written, c->path, c->after.mode);
        }
}

/* Sends the requests of a change, without waiting. */
static void send_change(struct asks *s, struct change *c, struct doing *d)
{
        if (c->aside) {
                act_rename(s, &d->renamed, c->path, c->aside, true);
                if (c->before.kind != FILE_LINK) {
                        d->aside = (struct look){ .path = c->aside, .wants_digest = c->before.has_digest };
                        look_send(s, &d->aside);
                }
        }
        if (c->after.kind == FILE_REGULAR || c->after.kind == FILE_LINK)
                send_write(s, c, d);
}

/* Did the requests of a change go well? */
static int check_change(const struct change *c, const struct doing *d, struct commit *ret)
{
        if (d->renamed.failure || d->written.failure)
                return fail(ret, c, d->renamed.failure ? d->renamed.failure : d->written.failure);
        if (d->aside.path && (d->aside.failure || !state_is_same(&d->aside.state, &c->before)))
                return d->aside.failure ? fail(ret, c, d->aside.failure) : fail_conflict(ret, c);
        return 0;
}

/* Files that are replaced by a rename are compared by a look just before: a rename has no condition. */
static int check_large(struct asks *s, struct change *list, size_t count, struct doing *doing,
                       struct commit *ret)
{
        bool has_any = false;
        for (size_t i = 0; i < count; i++)
                if (list[i].temp && list[i].before.kind == FILE_REGULAR && !list[i].aside) {
                        doing[i].now = (struct look){ .path = list[i].path,
                                                      .wants_digest = list[i].before.has_digest };
                        look_send(s, &doing[i].now);
                        has_any = true;
                }
        if (has_any)
                asks_wait(s);
        for (size_t i = 0; i < count && has_any; i++)
                if (doing[i].now.path &&
                    (doing[i].now.failure || !state_is_same(&doing[i].now.state, &list[i].before)))
                        return fail_conflict(ret, &list[i]);
        return 0;
}

/* ---- directories ---- */

/* Sends what makes the directories: files that give way to them go aside first. */
static void send_directories(struct asks *s, struct changes *c, struct doing *doing, struct act *made)
{
        for (size_t i = 0; i < c->count; i++) {
                struct change *one = &c->list[i];
                if (one->after.kind == FILE_DIRECTORY && one->aside)
                        send_change(s, one, &doing[i]);
                else if (one->after.kind == FILE_DIRECTORY)
                        act_remove(s, &doing[i].written, one->path, false);
        }
        for (size_t i = 0; i < c->directory_count && !c->is_undo; i++)
                act_make_directory(s, &made[i], c->directories[i].path);
}

static int check_directories(const struct changes *c, const struct act *made, struct commit *ret)
{
        for (size_t i = 0; i < c->directory_count; i++)
                if (made[i].failure && made[i].failure->os_errno != EEXIST) {
                        ret->directory = &c->directories[i];
                        return fail(ret, NULL, made[i].failure);
                }
        return 0;
}

/* ---- all changes ---- */

/* Streams all large files to their temporary files. The directories must be there first. */
static int prepare_all(struct asks *s, struct changes *c, const struct act *made, struct store *store,
                       struct commit *ret)
{
        bool has_large = false;
        int r = 0;
        for (size_t i = 0; i < c->count; i++)
                has_large |= c->list[i].temp != NULL;
        if (!has_large)
                return 0;
        asks_wait(s);
        r = check_directories(c, made, ret);
        for (size_t i = 0; i < c->count && r == 0; i++)
                if (c->list[i].temp)
                        r = prepare(s, &c->list[i], ret);
        if (r == 0 && store && store_renew(store, c) < 0)
                r = fail(ret, &c->list[0], refusal(s->arena, NO_JOURNAL));
        return r;
}

/* Sends all changes together, without waiting for answers in between: the server works on the requests in their order. */
static int send_all(struct asks *s, struct changes *c, struct doing *doing, struct store *store,
                    struct commit *ret)
{
        struct act *made = arena_zalloc(s->arena, c->directory_count * sizeof(*made) + 1);
        send_directories(s, c, doing, made);
        int r = prepare_all(s, c, made, store, ret);
        if (r == 0)
                r = check_large(s, c->list, c->count, doing, ret);
        for (size_t i = 0; i < c->count && r == 0; i++)
                if (c->list[i].after.kind != FILE_DIRECTORY)
                        send_change(s, &c->list[i], &doing[i]);
        asks_wait(s);
        if (r == 0)
                r = check_directories(c, made, ret);
        for (size_t i = 0; i < c->count && r == 0; i++)
                r = check_change(&c->list[i], &doing[i], ret);
        return r;
}

/* Makes one change, and waits for it. */
static int make_change(struct asks *s, struct changes *c, struct change *one, struct doing *d,
                       struct store *store, struct commit *ret)
{
        bool has_control = asks_has(s, "fsControlV1");
        int r = one->temp ? prepare(s, one, ret) : 0;
        if (r == 0 && one->temp && store && store_renew(store, c) < 0)
                r = fail(ret, one, refusal(s->arena, NO_JOURNAL));
        if (r == 0)
                r = check_large(s, one, 1, d, ret);
        if (r < 0)
                return r;
        if (has_control)
                send_change(s, one, d);
        else if (one->after.kind == FILE_REGULAR && one->fresh->kind == CONTENT_TEXT)
                act_write(s, &d->written, one->path, one->fresh->text, ACT_ANY, NULL, -1);
        else if (one->after.kind == FILE_ABSENT)
                act_remove(s, &d->written, one->path, false);
        else
                return fail(ret, one, refusal(s->arena, "this server cannot do that"));
        asks_wait(s);
        return check_change(one, d, ret);
}

/* Makes the changes one by one, for servers without conditions, and where earlier changes shall stay. */
static int send_each(struct asks *s, struct changes *c, struct doing *doing, struct store *store,
                     struct commit *ret)
{
        struct act *made = arena_zalloc(s->arena, c->directory_count * sizeof(*made) + 1);
        send_directories(s, c, doing, made);
        asks_wait(s);
        int r = check_directories(c, made, ret);
        for (size_t i = 0; i < c->count && r == 0; i++)
                r = c->list[i].after.kind == FILE_DIRECTORY
                            ? check_change(&c->list[i], &doing[i], ret)
                            : make_change(s, c, &c->list[i], &doing[i], store, ret);
        return r;
}

/* Cleans up after the changes are done. When the server is lost now, the next run cleans up. */
static void finish(struct asks *s, const struct changes *c, struct store *store, bool has_journal)
{
        int r = changes_clean(s, c);
        if (store && !has_journal)
                store_forget_last(store, c->cwd); /* the record there belongs to an older patch */
        else if (store && r == 0)
                store_done(store, c);
        else if (store)
                store_leave(store);
}

/* Has the server said that it has done nothing of a change? */
static bool is_refused(const struct change *c, const struct doing *d, enum found found)
{
        bool is_aside = d->renamed.is_done && !d->renamed.failure;
        const struct failure *f = d->written.failure;
        if (is_aside || (d->renamed.failure && d->renamed.failure->is_lost))
                return false;
        if (d->written.is_done && (!f || f->is_lost))
                return false;
        /* A write in place that failed may have begun, unless the condition was not met. */
        return !d->written.is_done || !c->is_in_place || f->is_conflict || found == FOUND_UNKNOWN;
}

/* Takes back what was done; with `is_partial` only the change that failed, and directories that are empty. */
static void take_back(struct asks *s, struct changes *c, const struct doing *doing, bool is_partial,
                      struct store *store, struct commit *ret)
{
        struct changes some = *c;
        size_t done = ret->change ? (size_t)(ret->change - c->list) : 0;
        enum found *found = arena_zalloc(s->arena, c->count * sizeof(*found) + 1);
        if (is_partial) {
                some.list = c->list + done;
                some.count = ret->change ? 1 : 0;
        }
        ret->left = arena_zalloc(s->arena, c->count * sizeof(*ret->left) + 1);
        int r = changes_look(s, &some, found);
        for (size_t i = 0; i < some.count; i++)
                if (is_refused(&some.list[i], &doing[some.list - c->list + (ptrdiff_t)i], found[i]))
                        found[i] = FOUND_BEFORE;
        if (r == 0)
                r = changes_restore(s, &some, found, ret->left, &ret->left_count);
        ret->is_left_to_repair = r < 0 && ret->has_journal;
        if (r < 0)
                return;
        c->count = is_partial ? done : 0;
        if (c->count > 0 && ret->has_journal)
                ret->has_journal = store_renew(store, c) == 0;
        if (c->count > 0)
                finish(s, c, store, ret->has_journal);
        if (store && (c->count == 0 || !ret->has_journal))
                store_drop(store);
}

int changes_commit(struct asks *s, struct changes *c, struct store *store, bool is_partial,
                   struct commit *ret)
{
        struct doing *doing = arena_zalloc(s->arena, c->count * sizeof(*doing) + 1);
        *ret = (struct commit){ 0 };
        if (c->count == 0 && c->directory_count == 0)
                return 0;
        if (store) {
                store_lock(store);
                ret->has_journal = store_begin(store, c) == 0;
        }
        struct store *journal = ret->has_journal ? store : NULL;
        bool is_at_once = !is_partial && asks_has(s, "fsControlV1");
        int r = is_at_once ? send_all(s, c, doing, journal, ret) : send_each(s, c, doing, journal, ret);
        if (r < 0)
                take_back(s, c, doing, is_partial, store, ret);
        else
                finish(s, c, store, ret->has_journal);
        return r;
}
