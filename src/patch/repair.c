/* repair: looks at what interrupted patches have left, and puts it right. */
#include "patch/repair.h"

#include "base/printable.h"
#include "patch/restore.h"

#include <errno.h>

#define REPAIRS_MAX 64 /* in one run; the next run goes on */
#define SETTLE_MS 100
#define SETTLE_TRIES 50

static void note(struct buf *notes, const char *text)
{
        if (buf_append(notes, slice_from_str(text)) < 0 || buf_append_char(notes, '\n') < 0)
                return; /* the note is cut where the buffer ends */
}

static void note_path(struct asks *s, struct buf *notes, const char *what, const char *path)
{
        note(notes, arena_printf(s->arena, "  %s: %s", printable_str(s->arena, path), what));
}

/* How far an interrupted patch had come. */
struct progress {
        size_t before, after, other, unknown;
};

static struct progress count(const struct changes *c, const enum found *found)
{
        struct progress p = { 0 };
        for (size_t i = 0; i < c->count; i++) {
                p.before += found[i] == FOUND_BEFORE && !state_is_same(&c->list[i].before, &c->list[i].after);
                p.after += found[i] == FOUND_AFTER || found[i] == FOUND_HALF;
                p.before += found[i] == FOUND_HALF;
                p.other += found[i] == FOUND_OTHER;
                p.unknown += found[i] == FOUND_UNKNOWN;
        }
        return p;
}

/* Takes an interrupted patch back. Returns whether its journal is done with. */
static bool take_back(struct asks *s, struct store *store, const struct changes *c, const enum found *found,
                      const struct progress *p, struct buf *notes)
{
        const struct change **left = arena_alloc(s->arena, c->count * sizeof(*left) + 1);
        size_t count = 0;
        bool is_ours = false;
        if (changes_restore(s, c, found, left, &count) < 0) {
                store_leave(store);
                return false;
        }
        if (p->after > 0)
                note(notes, "farhand: a patch that was interrupted has been taken back");
        else if (count > 0)
                note(notes, "farhand: a patch was interrupted, and its files were changed since");
        for (size_t i = 0; i < count; i++) {
                bool is_other = found[left[i] - c->list] == FOUND_OTHER;
                is_ours |= !is_other;
                note_path(s, notes,
                          is_other ? "somebody else has changed this file: it is left as it is"
                                   : "this file could not be put back",
                          left[i]->path);
        }
        if (is_ours)
                store_leave(store);
        else
                store_drop(store);
        return !is_ours;
}

/* Looks until nothing changes any more: a server may still be busy with what the killed client had sent. Returns as changes_look. */
static int look_settled(struct asks *s, const struct changes *c, enum found *found)
{
        enum found *before = arena_zalloc(s->arena, c->count * sizeof(*before) + 1);
        int r = changes_look(s, c, found);
        for (int i = 0; r == 0 && !s->near && i < SETTLE_TRIES; i++) {
                memcpy(before, found, c->count * sizeof(*before));
                (void)farhand_wait(s->client, SETTLE_MS, NULL);
                r = changes_look(s, c, found);
                if (r == 0 && memcmp(before, found, c->count * sizeof(*before)) == 0)
                        break;
        }
        return r;
}

/* Repairs one patch. Returns whether to look for another. */
static bool repair_one(struct asks *s, struct store *store, const struct changes *c, struct buf *notes)
{
        enum found *found = arena_zalloc(s->arena, c->count * sizeof(*found) + 1);
        if (look_settled(s, c, found) < 0) {
                store_leave(store);
                return false;
        }
        struct progress p = count(c, found);
        if (p.unknown > 0) {
                note(notes, "farhand: a patch was interrupted, and cannot be repaired now");
                for (size_t i = 0; i < c->count; i++)
                        if (found[i] == FOUND_UNKNOWN)
                                note_path(s, notes, "it cannot be looked at", c->list[i].path);
                store_leave(store);
                return false;
        }
        if (p.before == 0 && p.other == 0) {
                if (changes_clean(s, c) < 0) {
                        store_leave(store);
                        return false;
                }
                if (p.after > 0)
                        note(notes, "farhand: a patch that was interrupted had been applied completely");
                store_done(store, c);
                return true;
        }
        return take_back(s, store, c, found, &p, notes);
}

void repair_patches(struct asks *s, struct store *store, struct buf *notes)
{
        for (int i = 0; i < REPAIRS_MAX; i++) {
                struct changes c;
                if (store_adopt(store, s->arena, &c) == 0)
                        return;
                if (i == 0 && s->near)
                        s->near->on_interrupted(s->near->arg);
                if (!repair_one(s, store, &c, notes))
                        return;
        }
}
