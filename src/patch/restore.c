/* restore: compares files with what the changes say, and takes changes back. */
#include "patch/restore.h"

#include "patch/act.h"

#include <errno.h>

#define WHOLE_MAX ((uint64_t)64 * 1024 * 1024) /* what one request can carry */

/* ---- looking ---- */

/* What was found at a path and beside it. */
struct sight {
        struct look path, aside;
        const char *link; /* the text of the link at the path */
        struct slice bytes;
        bool has_bytes;
        struct asks *asks;
};

static void take_link(void *arg, const struct answer *answer)
{
        struct sight *v = arg;
        if (!answer->failure)
                v->link = answered_link(answer);
}

static void take_bytes(void *arg, const struct answer *answer)
{
        struct sight *v = arg;
        v->has_bytes = !answer->failure &&
                       answered_bytes(answer, answer->root, "dataBase64", WHOLE_MAX, &v->bytes) == 0;
}

static void read_bytes(struct sight *v)
{
        ask_about(v->asks, v->path.path);
        ask_send(v->asks, "fs/readFile", true, take_bytes, v);
        asks_wait(v->asks);
}

static void send_looks(struct asks *s, const struct change *c, struct sight *v)
{
        bool has_control = asks_has(s, "fsControlV1");
        *v = (struct sight){ .asks = s,
                             .path = { .path = c->path,
                                       .wants_digest = c->before.has_digest || c->after.has_digest },
                             .aside = { .path = c->aside } };
        look_send(s, &v->path);
        if (c->aside)
                look_send(s, &v->aside);
        if (has_control && (c->before.kind == FILE_LINK || c->after.kind == FILE_LINK)) {
                ask_about(s, c->path);
                ask_send(s, "fs/readLink", true, take_link, v);
        }
}

/* Returns whether the content is new at the front and old behind that: a server that is killed during a write in place leaves such a
 * file. It may have reserved room for the new content, which reads as zeros. */
static bool is_mixture(struct slice now, struct slice old, struct slice fresh)
{
        size_t at = 0;
        if (now.n > MAX(old.n, fresh.n) || now.n < MIN(old.n, fresh.n))
                return false;
        while (at < now.n && at < fresh.n && now.p[at] == fresh.p[at])
                at++;
        for (; at < now.n; at++)
                if (now.p[at] != (at < old.n ? old.p[at] : '\0'))
                        return false;
        return true;
}

static bool is_text(const struct content *c)
{
        return c && c->kind == CONTENT_TEXT;
}

static enum found judge(const struct change *c, struct sight *v)
{
        struct file_state *now = &v->path.state;
        const struct failure *failure = v->path.failure;
        bool has_aside = c->aside && !v->aside.failure && v->aside.state.kind != FILE_ABSENT;
        if (v->aside.failure && !v->aside.failure->os_errno)
                has_aside = true; /* a failure without an errno means that a link is there */
        if (v->link)
                *now = (struct file_state){ .kind = FILE_LINK, .target = v->link };
        else if (failure && failure->os_errno != ENOTDIR)
                return FOUND_UNKNOWN;
        bool needs_digest = c->before.has_digest || c->after.has_digest;
        if (needs_digest && now->kind == FILE_REGULAR && !now->has_digest && now->size <= WHOLE_MAX) {
                read_bytes(v); /* the server has computed no digest, so it is computed here */
                if (v->has_bytes)
                        state_set_content(now, v->bytes);
        }
        if (has_aside && now->kind == FILE_ABSENT && c->after.kind != FILE_ABSENT)
                return FOUND_HALF;
        if (state_is_same(now, &c->before) && !has_aside)
                return FOUND_BEFORE;
        if (state_is_same(now, &c->after))
                return FOUND_AFTER;
        bool can_mix = is_text(c->fresh) && (is_text(c->old) || c->before.kind == FILE_ABSENT);
        if (c->is_in_place && can_mix && now->kind == FILE_REGULAR && now->size <= WHOLE_MAX) {
                if (!v->has_bytes)
                        read_bytes(v);
                if (v->has_bytes && is_mixture(v->bytes, c->old ? c->old->text : S(""), c->fresh->text))
                        return FOUND_HALF;
        }
        return FOUND_OTHER;
}

int changes_look(struct asks *s, const struct changes *c, enum found *ret)
{
        struct sight *views = arena_zalloc(s->arena, c->count * sizeof(*views) + 1);
        for (size_t i = 0; i < c->count; i++)
                send_looks(s, &c->list[i], &views[i]);
        asks_wait(s);
        for (size_t i = 0; i < c->count && !asks_are_lost(s); i++)
                ret[i] = judge(&c->list[i], &views[i]);
        return asks_are_lost(s) ? -ENOTCONN : 0;
}

/* ---- taking back ---- */

/* Puts the old content of a large file back. */
static void restore_streamed(struct asks *s, const struct change *c, struct act *act)
{
        const char *temp = change_temp_path(s->arena, c->path);
        struct act cleaned = { 0 };
        if (act_stream(s, temp, c->old, c->before.has_mode, c->before.mode, &act->failure) == 0)
                act_rename(s, act, temp, c->path, true);
        asks_wait(s);
        if (act->failure)
                act_remove(s, &cleaned, temp, true);
        asks_wait(s);
}

static void cannot(struct asks *s, struct act *act)
{
        struct failure *f = arena_new(s->arena, struct failure);
        f->text = "what was there was not kept";
        act->failure = f;
}

/* Puts back what was at the path, when no old file waits aside: from the content in the record. */
static void restore_content(struct asks *s, const struct change *c, enum found found, struct act *act)
{
        enum act_match match = found == FOUND_HALF             ? ACT_ANY
                               : c->after.kind == FILE_REGULAR ? ACT_SAME
                                                               : ACT_ABSENT;
        int mode = c->before.has_mode ? (int)c->before.mode : -1;
        if (c->before.kind == FILE_LINK && c->before.target && c->after.kind == FILE_ABSENT) {
                act_link(s, act, c->path, c->before.target);
        } else if (c->before.kind == FILE_REGULAR && is_text(c->old)) {
                act_write(s, act, c->path, c->old->text, match, &c->after, mode);
                if (c->before.has_mode && c->after.has_mode && c->before.mode != c->after.mode)
                        act_set_mode(s, act, c->path, c->before.mode);
        } else if (c->before.kind == FILE_REGULAR && c->old) {
                restore_streamed(s, c, act);
        } else {
                cannot(s, act);
        }
}

static void restore_one(struct asks *s, const struct change *c, enum found found, struct act *act)
{
        struct act renamed = { 0 };
        if (c->before.kind == FILE_ABSENT) {
                if (c->after.kind == FILE_LINK)
                        act_remove(s, act, c->path, true);
                else
                        act_remove_real(s, act, c->path, true);
                asks_wait(s);
                return;
        }
        if (c->aside) {
                act_rename(s, &renamed, c->aside, c->path, c->after.kind == FILE_REGULAR);
                asks_wait(s);
                if (!renamed.failure)
                        return;
                if (renamed.failure->os_errno != ENOENT) {
                        act->failure = renamed.failure;
                        return;
                }
        }
        restore_content(s, c, found, act);
        asks_wait(s);
}

static bool are_lost(const struct act *acts, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (acts[i].failure && acts[i].failure->is_lost)
                        return true;
        return false;
}

/* Removes the directories that the changes have made. Returns whether the server was lost. Other failures do not matter: another program
 * may have put something into a directory. */
static bool remove_made_directories(struct asks *s, const struct changes *c)
{
        struct act *acts = arena_zalloc(s->arena, c->directory_count * sizeof(*acts) + 1);
        for (size_t i = c->directory_count; i > 0; i--)
                act_remove_real(s, &acts[i - 1], c->directories[i - 1].path, true);
        asks_wait(s);
        return are_lost(acts, c->directory_count);
}

/* Removes the temporary files after a failure, or the old files that wait aside after a success. Returns whether the server was lost. */
static bool remove_beside(struct asks *s, const struct changes *c, bool has_failed)
{
        struct act *acts = arena_zalloc(s->arena, 2 * c->count * sizeof(*acts) + 1);
        for (size_t i = 0; i < c->count; i++) {
                if (c->list[i].temp && has_failed)
                        act_remove(s, &acts[2 * i], c->list[i].temp, true);
                if (c->list[i].aside && !has_failed)
                        act_remove(s, &acts[2 * i + 1], c->list[i].aside, true);
        }
        asks_wait(s);
        return are_lost(acts, 2 * c->count);
}

int changes_restore(struct asks *s, const struct changes *c, const enum found *found,
                    const struct change **left, size_t *ret_left)
{
        bool is_lost = false;
        *ret_left = 0;
        /* Files that gave way to a directory come last, when the directories are gone. */
        for (int round = 0; round < 2; round++) {
                for (size_t i = c->count; i > 0 && !asks_are_lost(s); i--) {
                        const struct change *one = &c->list[i - 1];
                        struct act act = { 0 };
                        if ((one->after.kind == FILE_DIRECTORY) != (round == 1))
                                continue;
                        if (found[i - 1] == FOUND_AFTER || found[i - 1] == FOUND_HALF)
                                restore_one(s, one, found[i - 1], &act);
                        is_lost |= are_lost(&act, 1);
                        if (act.failure || found[i - 1] == FOUND_OTHER || found[i - 1] == FOUND_UNKNOWN)
                                left[(*ret_left)++] = one;
                }
                if (round == 0 && !c->is_undo)
                        is_lost |= remove_made_directories(s, c);
        }
        is_lost |= remove_beside(s, c, true);
        return is_lost || asks_are_lost(s) ? -ENOTCONN : 0;
}

int changes_clean(struct asks *s, const struct changes *c)
{
        bool is_lost = remove_beside(s, c, false);
        if (c->is_undo)
                is_lost |= remove_made_directories(s, c);
        return is_lost ? -ENOTCONN : 0;
}
