/* overlay: normalizes overlays, merges two of them, and applies one to a profile. The intersection is in overlay_intersect.c. */
#include "policy/overlay.h"

#include "policy/entries.h"

#include <errno.h>

ACCESS_COMPARED(3);

static void set_entries(struct overlay *o, const struct entries *s, uint64_t glob_depth)
{
        o->has_files = s->count > 0;
        o->entries = s->list;
        o->count = s->count;
        o->glob_depth = s->count > 0 ? glob_depth : 0;
}

int overlay_normalize(struct arena *a, const struct overlay *o, overlay_canonical canonical, void *arg,
                      struct overlay *ret, struct err *err)
{
        struct overlay result = { .has_network_word = o->has_network_word, .has_network = o->has_network };
        _entries_ struct entries s;

        entries_init(&s, a);
        for (size_t i = 0; i < o->count; i++) {
                struct profile_entry e = o->entries[i];
                if (e.kind == TARGET_GLOB && e.access != ACCESS_DENY)
                        return err_set(err, 0, -EINVAL,
                                       "glob file system permissions only support deny-read entries");
                if (canonical && e.kind == TARGET_PATH && !profile_path_is_foreign(e.text))
                        e.text = canonical(arg, a, e.text);
                entries_add(&s, &e);
        }
        set_entries(&result, &s, o->glob_depth);
        *ret = result;
        return 0;
}

void overlay_merge(struct arena *a, const struct overlay *base, const struct overlay *more,
                   struct overlay *ret)
{
        bool has_network = base->has_network || more->has_network;
        struct overlay result = { .has_network_word = has_network, .has_network = has_network };
        _entries_ struct entries s;

        entries_init(&s, a);
        for (size_t i = 0; i < base->count; i++)
                entries_add(&s, &base->entries[i]);
        for (size_t i = 0; i < more->count; i++)
                entries_add(&s, &more->entries[i]);
        set_entries(&result, &s,
                    entries_unite_depths(base->entries, base->count, base->glob_depth, more->entries,
                                         more->count, more->glob_depth));
        *ret = result;
}

void overlay_apply(struct arena *a, const struct profile *base, const struct overlay *o, struct profile *ret)
{
        struct profile result = *base;
        _entries_ struct entries s;

        entries_init(&s, a);
        result.has_network |= o->has_network;
        if (base->kind == PROFILE_MANAGED && !base->is_unrestricted && o->count > 0) {
                for (size_t i = 0; i < base->count; i++)
                        entries_append(&s, &base->entries[i]);
                for (size_t i = 0; i < o->count; i++)
                        entries_add(&s, &o->entries[i]);
                uint64_t depth = entries_unite_depths(base->entries, base->count, base->glob_depth,
                                                      o->entries, o->count, o->glob_depth);
                result = entries_profile(&s, depth, result.has_network);
        }
        *ret = result;
}
