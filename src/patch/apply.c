/* apply: applies a patch: makes a draft, asks the server whether it is allowed, commits it, and says what was done. */
#include "patch/apply.h"

#include "patch/access.h"
#include "patch/work.h"

#include <errno.h>

#define OUT_MAX ((size_t)64 * 1024 * 1024)

/* Makes the text of a success: added files first, then changed ones, then deleted ones, each as the patch spells it. */
static const char *success_text(struct arena *a, const struct patch_result *r)
{
        _buf_ struct buf out = BUF_INIT(OUT_MAX);
        bool fits = buf_append(&out, S("Success. Updated the following files:\n")) == 0;
        for (const char *letter = "AMD"; *letter; letter++)
                for (size_t i = 0; i < r->done_count && fits; i++)
                        if (r->done[i].letter == *letter)
                                fits = buf_append_char(&out, *letter) == 0 &&
                                       buf_append_char(&out, ' ') == 0 &&
                                       buf_append(&out, r->done[i].path) == 0 &&
                                       buf_append_char(&out, '\n') == 0;
        return arena_dup(a, buf_slice(&out));
}

/* Commits the draft. Returns whether that went well. */
static bool commit(struct work *w, struct draft *draft)
{
        struct changes changes;
        struct commit result;
        changes_from_draft(&changes, draft, w->options->cwd, w->options->is_partial);
        int r = changes_commit(&w->asks, &changes, w->store, w->options->is_partial, &result);
        w->result->is_applied = r == 0 || (w->options->is_partial && changes.count > 0);
        w->result->can_undo = w->result->is_applied && result.has_journal;
        if (r < 0)
                work_fail_commit(w, &result);
        return r == 0;
}

static void add_denial(void *arg, const struct denial *denial)
{
        work_add_denial(arg, denial);
}

static void apply(struct work *w, const struct patch *p)
{
        struct patch_result *r = w->result;
        struct draft draft;
        struct access_check access = { 0 };
        if (p->hunk_count == 0) {
                r->error = "No files were modified.\n";
                return;
        }
        draft_begin(&draft, &w->asks);
        if (w->options->real_paths)
                draft_bind(&draft, w->options->real_paths);
        access_send(&w->asks, &access, p, w->options->cwd);
        draft_patch(&draft, p, w->options->cwd, true);
        bool is_denied = access_is_denied(&access);
        access_each_denial(&access, add_denial, w);
        if (is_denied)
                work_fail_denied(w, arena_printf(w->arena, "%s %s", access.message, access.path),
                                 access.denial);
        else if (draft.error)
                work_fail(w, draft.error, draft.failure);
        r->is_elsewhere = !is_denied && draft.is_elsewhere;
        if (!is_denied && (!draft.error || (w->options->is_partial && draft.count > 0))) {
                const char *error = r->error;
                bool is_done = commit(w, &draft);
                if (is_done)
                        work_set_done(w, &draft);
                if (is_done && draft.error)
                        r->error = error;
                if (is_done && !draft.error) {
                        r->exit_code = 0;
                        r->out = success_text(w->arena, r);
                }
        }
        draft_release(&draft);
}

int patch_apply(struct farhand *f, const struct patch *p, const struct patch_options *o,
                struct patch_result *ret)
{
        struct work w;
        work_begin(&w, f, o, !o->real_paths, ret);
        if (ret->error[0] == '\0')
                apply(&w, p);
        return work_end(&w);
}

int patch_look(struct farhand *f, const struct patch *p, const struct patch_options *o,
               struct patch_result *ret)
{
        static const char *const none[] = { NULL };
        struct patch_options without = *o;
        struct work w;
        struct draft draft;
        without.state_dir = NULL;
        work_begin(&w, f, &without, false, ret);
        draft_begin(&draft, &w.asks);
        draft_only_look(&draft);
        if (ret->error[0] == '\0')
                draft_patch(&draft, p, o->cwd, false);
        ret->real_paths = draft.real_paths ? draft.real_paths : none;
        if (asks_are_lost(&w.asks))
                work_fail(&w, "the server is lost", draft.failure);
        else if (ret->error[0] == '\0')
                ret->exit_code = 0;
        draft_release(&draft);
        return work_end(&w);
}

const char *const *patch_paths(struct arena *a, const struct patch *p, const char *cwd)
{
        const char **paths = arena_alloc(a, (2 * p->hunk_count + 1) * sizeof(*paths));
        size_t count = 0;
        for (size_t i = 0; i < p->hunk_count; i++) {
                const struct hunk *h = &p->hunks[i];
                const char *path = draft_path(a, cwd, h->path);
                const char *to = h->move_to.p ? draft_path(a, cwd, h->move_to) : NULL;
                if (path)
                        paths[count++] = path;
                if (to)
                        paths[count++] = to;
        }
        paths[count] = NULL;
        return paths;
}
