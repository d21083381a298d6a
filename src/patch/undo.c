/* undo: takes the last patch of a working directory back. */
#include "patch/apply.h"

#include "base/printable.h"
#include "patch/restore.h"
#include "patch/work.h"

#include <errno.h>

#define OUT_MAX ((size_t)64 * 1024 * 1024)

static void cannot(struct work *w, const char *why)
{
        w->result->error = arena_printf(w->arena, "Cannot undo: %s\n", why);
}

/* Returns the path relative to the working directory, where it is below it. */
static const char *short_path(const char *path, const char *cwd)
{
        size_t n = strlen(cwd);
        bool is_below = strncmp(path, cwd, n) == 0 && path[n] == '/';
        return is_below ? path + n + 1 : path;
}

/* Returns the path of short_path with its control characters escaped, for messages: others may have chosen the name. */
static const char *printable_path(struct arena *a, const char *path, const char *cwd)
{
        return printable_str(a, short_path(path, cwd));
}

/* Are all files as the patch has left them? If not, the result says which are not. */
static bool is_unchanged(struct work *w, const struct changes *c)
{
        enum found *found = arena_zalloc(w->arena, c->count * sizeof(*found) + 1);
        _buf_ struct buf list = BUF_INIT(OUT_MAX);
        bool fits = true;
        if (changes_look(&w->asks, c, found) < 0) {
                w->result->is_lost = true;
                cannot(w, "the server is lost");
                return false;
        }
        for (size_t i = 0; i < c->count; i++) {
                const struct change *one = &c->list[i];
                bool is_same = found[i] == FOUND_BEFORE && state_is_same(&one->before, &one->after);
                if (found[i] != FOUND_AFTER && !is_same)
                        fits = fits &&
                               buf_printf(&list, "\n%s", printable_path(w->arena, one->path, c->cwd)) == 0;
        }
        if (list.n == 0)
                return true;
        w->result->is_conflict = true;
        cannot(w, arena_printf(w->arena, "these files were changed since the patch:%s", list.p));
        return false;
}

/* A file that the undo overwrites, and what is in it now. */
struct current {
        struct change *change;
        struct arena *arena;
};

static void take_current(void *arg, const struct answer *answer)
{
        struct current *c = arg;
        struct slice bytes;
        struct file_state now = { .kind = FILE_REGULAR };
        if (answer->failure ||
            answered_bytes(answer, answer->root, "dataBase64", STATE_DIGEST_MAX, &bytes) < 0)
                return;
        state_set_content(&now, bytes);
        if (state_is_same(&now, &c->change->before))
                c->change->old = content_from_text(c->arena, bytes);
}

/* Reads what the undo overwrites, so that it can be put back when the undo fails. */
static void read_current(struct work *w, struct changes *c)
{
        struct current *all = arena_zalloc(w->arena, c->count * sizeof(*all) + 1);
        for (size_t i = 0; i < c->count; i++) {
                struct change *one = &c->list[i];
                if (one->before.kind != FILE_REGULAR || !one->before.has_digest ||
                    one->before.size > STATE_DIGEST_MAX)
                        continue;
                all[i] = (struct current){ one, w->arena };
                ask_about(&w->asks, one->path);
                ask_send(&w->asks, "fs/readFile", true, take_current, &all[i]);
        }
        asks_wait(&w->asks);
}

static void set_done(struct work *w, const struct changes *c)
{
        struct patch_result *r = w->result;
        _buf_ struct buf out = BUF_INIT(OUT_MAX);
        bool fits = buf_append(&out, S("Success. Took back the last patch:\n")) == 0;
        r->done = arena_zalloc(w->arena, c->count * sizeof(*r->done) + 1);
        for (size_t i = 0; i < c->count; i++) {
                const struct change *one = &c->list[i];
                const char *path = short_path(one->path, c->cwd);
                char letter = one->after.kind == FILE_ABSENT    ? 'D'
                              : one->before.kind == FILE_ABSENT ? 'A'
                                                                : 'M';
                r->done[r->done_count++] = (struct patch_done){ .letter = letter,
                                                                .path = slice_from_str(path),
                                                                .absolute = one->path };
                fits = fits && buf_printf(&out, "%c %s\n", letter, printable_str(w->arena, path)) == 0;
        }
        r->out = arena_dup(w->arena, buf_slice(&out));
        r->is_applied = true;
        r->exit_code = 0;
}

static void undo(struct work *w)
{
        struct changes last, back;
        struct commit result;
        const char *lost_path;
        if (!w->store) {
                cannot(w, w->no_store.text);
                return;
        }
        int r = store_last(w->store, w->arena, w->options->cwd, &last);
        if (r == -ENOENT) {
                cannot(w, arena_printf(w->arena, "no patch was applied in %s, or it was taken back already",
                                       w->options->cwd));
                return;
        }
        if (r < 0) {
                cannot(w, "the record of the last patch cannot be read");
                return;
        }
        if (changes_reverse(w->arena, &last, &back, &lost_path) < 0) {
                cannot(w, arena_printf(w->arena, "what was in %s was not kept, it is too large",
                                       printable_path(w->arena, lost_path, last.cwd)));
                return;
        }
        if (!is_unchanged(w, &last))
                return;
        read_current(w, &back);
        changes_choose_ways(w->arena, &back, asks_has(&w->asks, "fsControlV1"));
        if (changes_commit(&w->asks, &back, w->store, false, &result) < 0) {
                work_fail_commit(w, &result);
                return;
        }
        set_done(w, &back);
}

int patch_undo(struct farhand *f, const struct patch_options *o, struct patch_result *ret)
{
        struct work w;
        work_begin(&w, f, o, true, ret);
        if (ret->error[0] == '\0')
                undo(&w);
        return work_end(&w);
}
