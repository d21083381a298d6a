/* rig_internal: makes profiles from short texts, and texts from profiles, for tests.
 *
 * An entry is ACCESS TARGET with r, w or d for the access; the target is a path, :root, :minimal, :tmpdir, :slash_tmp, :ws
 * with /SUBPATH or without, :unknown, or glob(PATTERN). A `?` behind the target stands for missing_path_behavior skip. Entries are
 * separated by a blank: "r:root w:ws r:ws/.git? d/s dglob(*.key)".
 */
#pragma once

#include "base/mem.h"
#include "policy/profile.h"

#include "unit.h"

static const struct {
        const char *name;
        enum special special;
} rig_specials[] = {
        { ":root", SPECIAL_ROOT },        { ":minimal", SPECIAL_MINIMAL },
        { ":tmpdir", SPECIAL_TMPDIR },    { ":slash_tmp", SPECIAL_SLASH_TMP },
        { ":ws", SPECIAL_PROJECT_ROOTS }, { ":unknown", SPECIAL_UNKNOWN },
};

static inline struct profile_entry rig_entry(struct slice text)
{
        struct profile_entry e = { 0 };

        must(text.n > 1);
        e.access = text.p[0] == 'w' ? ACCESS_WRITE : text.p[0] == 'r' ? ACCESS_READ : ACCESS_DENY;
        e.skips_missing = text.p[text.n - 1] == '?';
        e.text = slice_from(text.p + 1, text.n - 1 - (e.skips_missing ? 1 : 0));
        if (slice_starts(e.text, S("glob("))) {
                e.kind = TARGET_GLOB;
                e.text = slice_from(e.text.p + 5, e.text.n - 6);
        }
        for (size_t i = 0; i < ARRAY_LEN(rig_specials); i++) {
                struct slice name = slice_from_str(rig_specials[i].name);
                if (!slice_starts(e.text, name))
                        continue;
                e.kind = TARGET_SPECIAL;
                e.special = rig_specials[i].special;
                if (e.text.n > name.n)
                        e.subpath = slice_from(e.text.p + name.n + 1, e.text.n - name.n - 1);
                e.text = e.special == SPECIAL_UNKNOWN ? S(":later") : (struct slice){ 0 };
                break;
        }
        return e;
}

/* Makes a managed, restricted profile without network. */
static inline struct profile rig_profile(struct arena *a, const char *text)
{
        struct slice rest = slice_from_str(text);
        struct profile p = { .entries = arena_alloc(a, (rest.n + 1) * sizeof(struct profile_entry)) };

        while (rest.p && rest.n > 0)
                p.entries[p.count++] = rig_entry(slice_split(&rest, ' '));
        return p;
}

static inline const char *rig_entry_text(struct arena *a, const struct profile_entry *e)
{
        const char *target = "?";

        if (e->kind == TARGET_PATH)
                target = arena_printf(a, "%.*s", SLICE(e->text));
        else if (e->kind == TARGET_GLOB)
                target = arena_printf(a, "glob(%.*s)", SLICE(e->text));
        for (size_t i = 0; e->kind == TARGET_SPECIAL && i < ARRAY_LEN(rig_specials); i++) {
                if (rig_specials[i].special == e->special)
                        target = arena_printf(a, "%s%s%.*s", rig_specials[i].name, e->subpath.n ? "/" : "",
                                              SLICE(e->subpath));
        }
        return arena_printf(a, "%c%s%s", "drw"[e->access], target, e -> skips_missing ? "?" : "");
}

static inline const char *rig_entries_text(struct arena *a, const struct profile_entry *list, size_t count)
{
        const char *text = "";

        for (size_t i = 0; i < count; i++)
                text = arena_printf(a, "%s%s%s", text, i ? " " : "", rig_entry_text(a, &list[i]));
        return text;
}

/* Returns the profile as text, such as "network w/tmp depth 3": a word each when it is not managed, is unrestricted, or has a
 * network; then its entries; then the depth of its patterns, when that is limited. */
static inline const char *rig_text(struct arena *a, const struct profile *p)
{
        static const char *const kinds[] = {
                [PROFILE_MANAGED] = "", [PROFILE_DISABLED] = "disabled ", [PROFILE_EXTERNAL] = "external "
        };

        return arena_printf(a, "%s%s%s%s%s", kinds[p->kind], p->is_unrestricted ? "unrestricted " : "",
                            p->has_network ? "network " : "", rig_entries_text(a, p->entries, p->count),
                            p->glob_depth ? arena_printf(a, " depth %ju", (uintmax_t)p->glob_depth) : "");
}
