/* work: begins and ends the work on a patch, and puts its failures into words. */
#include "patch/work.h"

#include "base/limits.h"
#include "base/printable.h"
#include "patch/repair.h"

#include <errno.h>

#define NOTES_MAX ((size_t)64 * 1024)
#define LEFT_MAX ((size_t)64 * 1024 * 1024)

void work_begin(struct work *w, struct farhand *f, const struct patch_options *o, bool may_repair,
                struct patch_result *ret)
{
        struct farhand_error error;
        _buf_ struct buf notes = BUF_INIT(NOTES_MAX);
        *ret = (struct patch_result){
                .arena = ARENA_INIT, .exit_code = 1, .out = "", .error = "", .notes = ""
        };
        *w = (struct work){ .result = ret, .arena = &ret->arena, .options = o, .no_store = ERR_INIT };
        asks_begin(&w->asks, f, f ? NULL : o->near, o->sandbox, w->arena);
        if (f && farhand_use_sandbox(f, o->sandbox, &error) < 0)
                work_fail(w, arena_dup(w->arena, slice_from_str(error.text)), NULL);
        if (!o->state_dir || !o->environment_key)
                (void)err_set(&w->no_store, 0, -ENOENT, "there is no directory for the records of patches");
        else if (store_open(o->state_dir, o->environment_key, &w->store, &w->no_store) < 0)
                w->store = NULL;
        if (w->store && may_repair)
                repair_patches(&w->asks, w->store, &notes);
        if (notes.n > 0)
                ret->notes = arena_dup(w->arena, buf_slice(&notes));
}

int work_end(struct work *w)
{
        w->store = store_close(w->store);
        if (!w->asks.near)
                (void)farhand_use_sandbox(w->asks.client, NULL, NULL);
        asks_release(&w->asks);
        return w->result->exit_code == 0 ? 0 : -EIO;
}

/* ---- failures ---- */

void work_add_denial(struct work *w, const struct denial *denial)
{
        struct patch_result *r = w->result;
        if (!r->denials)
                r->denials = arena_alloc(w->arena, LIMIT_PATCH_DENIALS * sizeof(struct denial *));
        if (r->denial_count < LIMIT_PATCH_DENIALS)
                r->denials[r->denial_count++] = denial;
        r->denied_count++;
}

void work_fail_denied(struct work *w, const char *error, const struct denial *denial)
{
        struct patch_result *r = w->result;
        r->is_denied = true;
        r->denied_path = denial->path;
        r->denied_operation = denial->operation;
        r->denied_rule = denial->rule;
        r->denied_entry = denial->entry;
        if (r->denied_count == 0)
                work_add_denial(w, denial);
        r->error = arena_printf(w->arena, "%s: the permission profile does not allow to %s %s (%s%s%s)\n",
                                error, printable_str(w->arena, denial->operation),
                                printable_str(w->arena, denial->path), printable_str(w->arena, denial->rule),
                                denial->entry ? ": " : "",
                                denial->entry ? printable_str(w->arena, denial->entry) : "");
}

void work_fail(struct work *w, const char *error, const struct failure *failure)
{
        struct patch_result *r = w->result;
        if (failure && failure->denial) {
                work_fail_denied(w, error, failure->denial);
                return;
        }
        r->error = arena_printf(w->arena, "%s\n", error);
        r->reason = failure ? failure->text : NULL;
        r->is_lost = failure && failure->is_lost;
}

static const char *message_of(struct arena *a, const struct change *c)
{
        static const char *const words[] = { [STEP_NONE] = "Failed to change file",
                                             [STEP_WRITE] = "Failed to write file",
                                             [STEP_DELETE] = "Failed to delete file",
                                             [STEP_ORIGINAL] = "Failed to remove original" };
        return arena_printf(a, "%s %s", words[c->step], c->shown);
}

void work_fail_commit(struct work *w, const struct commit *c)
{
        struct arena *a = w->arena;
        struct patch_result *r = w->result;
        const char *error = c->change ? message_of(a, c->change)
                                      : arena_printf(a, "Failed to create parent directories for %s",
                                                     c->directory ? c->directory->shown : "a file");
        r->is_conflict = c->is_conflict;
        if (c->is_conflict)
                error = arena_printf(a, "%s: it was changed by somebody else meanwhile", error);
        else if (c->failure && !c->failure->os_errno && !c->failure->denial)
                error = arena_printf(a, "%s: %s", error, c->failure->text);
        work_fail(w, error, c->failure);
        if (c->is_left_to_repair)
                r->error = arena_printf(
                        a, "%sThe server is lost; what was changed is put right by the next patch.\n",
                        r->error);
        _buf_ struct buf text = BUF_INIT(LEFT_MAX);
        bool fits = buf_append(&text, slice_from_str(r->error)) == 0;
        for (size_t i = 0; i < c->left_count && fits; i++)
                fits = buf_printf(&text, "This file could not be put back as it was: %s\n",
                                  printable_str(a, c->left[i]->path)) == 0;
        r->error = arena_dup(a, buf_slice(&text));
}

/* ---- successes ---- */

void work_set_done(struct work *w, const struct draft *d)
{
        struct patch_result *r = w->result;
        static const char letters[] = { [HUNK_ADD] = 'A', [HUNK_DELETE] = 'D', [HUNK_UPDATE] = 'M' };
        r->done = arena_zalloc(w->arena, d->count * sizeof(*r->done) + 1);
        r->done_count = d->count;
        for (size_t i = 0; i < d->count; i++) {
                const struct drafted *from = &d->list[i];
                const struct hunk *h = from->hunk;
                r->done[i] = (struct patch_done){ .letter = letters[h->kind],
                                                  .path = h->move_to.p ? h->move_to : h->path,
                                                  .from = h->move_to.p ? h->path : (struct slice){ 0 },
                                                  .absolute = from->path,
                                                  .added_lines = from->added_lines,
                                                  .removed_lines = from->removed_lines };
        }
}
