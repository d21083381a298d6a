/* entries: grows lists of profile entries and finds an entry, or a target, in them.
 *
 * One map holds two kinds of keys: the text of a whole entry, and the text of its target.
 */
#include "policy/entries.h"

#include "policy/rules.h"

ACCESS_COMPARED(3);

enum key_kind { KEY_ENTRY = 'E', KEY_TARGET = 'T' };

void entries_init(struct entries *s, struct arena *a)
{
        *s = (struct entries){ .arena = a };
        map_init(&s->seen);
}

void entries_release(struct entries *s)
{
        map_release(&s->seen);
}

/* Makes the key of an entry or of its target: the kind, the special name, the access and `skips_missing` as letters, then the
 * length of the first text, so that two different pairs of texts never give the same key. */
static struct slice key_of(struct arena *a, enum key_kind kind, const struct profile_entry *e)
{
        struct profile_entry t = *e;
        bool is_alias = kind == KEY_TARGET && t.kind == TARGET_SPECIAL && t.subpath.n == 0;

        if (is_alias && t.special == SPECIAL_ROOT)
                t = entry_for_path(S("/"), t.access);
        else if (is_alias && t.special == SPECIAL_SLASH_TMP)
                t = entry_for_path(S("/tmp"), t.access);
        bool has_special = t.kind == TARGET_SPECIAL;

        struct slice text = has_special && t.special != SPECIAL_UNKNOWN ? S("") : t.text;
        struct slice subpath = has_special ? t.subpath : S("");
        size_t n = 5 + sizeof(text.n) + text.n + subpath.n;
        char *key = arena_alloc(a, n), *p = key;
        *p++ = (char)kind;
        *p++ = (char)('a' + (int)t.kind);
        *p++ = has_special ? (char)('a' + (int)t.special) : '-';
        *p++ = kind == KEY_ENTRY ? (char)('a' + (int)t.access) : '-';
        *p++ = kind == KEY_ENTRY && t.skips_missing ? 's' : '-';
        memcpy(p, &text.n, sizeof(text.n));
        p += sizeof(text.n);
        if (text.n)
                memcpy(p, text.p, text.n);
        if (subpath.n)
                memcpy(p + text.n, subpath.p, subpath.n);
        return slice_from(key, n);
}

static void note(struct entries *s, const struct profile_entry *e)
{
        struct slice key = key_of(s->arena, KEY_ENTRY, e);

        if (!map_find(&s->seen, key))
                map_put(&s->seen, key, s);

        key = key_of(s->arena, KEY_TARGET, e);
        unsigned *accesses = map_find(&s->seen, key);
        if (!accesses) {
                accesses = arena_new(s->arena, unsigned);
                map_put(&s->seen, key, accesses);
        }
        *accesses |= 1U << e->access;
}

void entries_append(struct entries *s, const struct profile_entry *e)
{
        s->list = arena_room(s->arena, s->list, s->count, &s->room, sizeof(*s->list));
        s->list[s->count++] = *e;
        note(s, e);
}

bool entries_have(struct entries *s, const struct profile_entry *e)
{
        return map_find(&s->seen, key_of(s->arena, KEY_ENTRY, e)) != NULL;
}

unsigned entries_accesses(struct entries *s, const struct profile_entry *e)
{
        const unsigned *accesses = map_find(&s->seen, key_of(s->arena, KEY_TARGET, e));

        return accesses ? *accesses : 0;
}

void entries_add(struct entries *s, const struct profile_entry *e)
{
        if (!entries_have(s, e))
                entries_append(s, e);
}

struct profile entries_profile(const struct entries *s, uint64_t glob_depth, bool has_network)
{
        return (struct profile){
                .kind = PROFILE_MANAGED,
                .entries = s->list,
                .count = s->count,
                .glob_depth = glob_depth,
                .has_network = has_network,
        };
}

/* --- single entries ----------------------------------------------------------------------------------------------- */

bool entry_is_workspace(const struct profile_entry *e)
{
        return e->kind == TARGET_SPECIAL && e->special == SPECIAL_PROJECT_ROOTS && e->subpath.n == 0;
}

bool path_is_protected(struct slice path)
{
        for (size_t i = 0; rules_protected_names[i]; i++) {
                if (slice_eq(path_name(path), slice_from_str(rules_protected_names[i])))
                        return true;
        }
        return false;
}

/* --- depths of patterns ------------------------------------------------------------------------------------------- */

static bool have_patterns(const struct profile_entry *list, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (list[i].kind == TARGET_GLOB && list[i].access == ACCESS_DENY)
                        return true;
        }
        return false;
}

uint64_t entries_unite_depths(const struct profile_entry *a, size_t a_count, uint64_t a_depth,
                              const struct profile_entry *b, size_t b_count, uint64_t b_depth)
{
        bool a_counts = have_patterns(a, a_count), b_counts = have_patterns(b, b_count);

        if (a_counts && b_counts)
                return a_depth && b_depth ? MAX(a_depth, b_depth) : 0;
        if (a_counts)
                return a_depth;
        return b_counts ? b_depth : 0;
}
