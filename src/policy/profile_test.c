/* profile_test: whether a profile makes the whole disk writable, for every order of its entries; whether it needs a sandbox or a
 * cwd. */
#include "policy/profile.h"

#include "unit.h"

#define AT(path, what)                                                                    \
        {                                                                                 \
                .kind = TARGET_PATH, .text = { path, sizeof(path) - 1 }, .access = (what) \
        }
#define GLOB(pattern, what)                                                                     \
        {                                                                                       \
                .kind = TARGET_GLOB, .text = { pattern, sizeof(pattern) - 1 }, .access = (what) \
        }
#define SPECIAL(name, what)                                                         \
        {                                                                           \
                .kind = TARGET_SPECIAL, .special = SPECIAL_##name, .access = (what) \
        }
#define BELOW(name, sub, what)                                                                          \
        {                                                                                               \
                .kind = TARGET_SPECIAL, .special = SPECIAL_##name, .subpath = { sub, sizeof(sub) - 1 }, \
                .access = (what)                                                                        \
        }
#define R ACCESS_READ
#define W ACCESS_WRITE
#define D ACCESS_DENY

struct row {
        struct profile_entry entries[4];
        size_t count;
        bool writes_all;
};

/* Checks each row with its entries in the given order and in reverse. */
static void check(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct row *row = &rows[i];
                struct profile_entry entries[4], reversed[4];
                for (size_t k = 0; k < row->count; k++)
                        entries[k] = reversed[row->count - 1 - k] = row->entries[k];

                struct profile p = { .kind = PROFILE_MANAGED, .entries = entries, .count = row->count };
                for (int turn = 0; turn < 2; turn++, p.entries = reversed) {
                        ok(profile_writes_all(&p) == row->writes_all);
                        ok(profile_limits_files(&p) == !row->writes_all);
                }
        }
}

TEST(a_writable_root_is_narrowed_by_what_could_take_away)
{
        static const struct row rows[] = {
                { { SPECIAL(ROOT, W) }, 1, true },
                { { SPECIAL(ROOT, W), SPECIAL(ROOT, R) }, 2, true },
                { { SPECIAL(ROOT, W), AT("/", R) }, 2, true },
                { { SPECIAL(ROOT, W), AT("/", D) }, 2, false },
                { { SPECIAL(ROOT, W), SPECIAL(ROOT, D) }, 2, false },
                { { SPECIAL(ROOT, W), AT("/a", W) }, 2, true },
                { { SPECIAL(ROOT, W), AT("/a", R) }, 2, false },
                { { SPECIAL(ROOT, W), AT("/a", R), AT("/a", W) }, 3, true },
                { { SPECIAL(ROOT, W), AT("/a", D), AT("/a", W) }, 3, false },
                { { SPECIAL(ROOT, W), AT("/a/b", R), AT("/a", W) }, 3, false },
                { { SPECIAL(ROOT, W), SPECIAL(MINIMAL, R) }, 2, true },
                { { SPECIAL(ROOT, W), SPECIAL(UNKNOWN, R) }, 2, true },
                { { SPECIAL(ROOT, W), SPECIAL(TMPDIR, R) }, 2, false },
                { { SPECIAL(ROOT, W), SPECIAL(SLASH_TMP, R) }, 2, false },
                { { SPECIAL(ROOT, W), SPECIAL(SLASH_TMP, R), AT("/tmp", W) }, 3, true },
                { { SPECIAL(ROOT, W), BELOW(SLASH_TMP, "a", R), AT("/tmp", W) }, 3, false },
                { { SPECIAL(ROOT, W), SPECIAL(PROJECT_ROOTS, R) }, 2, false },
                { { SPECIAL(ROOT, W), SPECIAL(PROJECT_ROOTS, R), SPECIAL(PROJECT_ROOTS, W) }, 3, true },
                { { SPECIAL(ROOT, W), BELOW(PROJECT_ROOTS, "a", R), SPECIAL(PROJECT_ROOTS, W) }, 3, false },
                { { SPECIAL(ROOT, W), GLOB("*.env", D) }, 2, false },
                { { SPECIAL(ROOT, W), GLOB("*.env", W) }, 2, false },
                { { BELOW(ROOT, "a", W) }, 1, false },
                { { AT("/", W) }, 1, false },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(a_path_of_another_system_selects_the_sandbox)
{
        static const struct row rows[] = {
                { { SPECIAL(ROOT, W), AT("C:\\x", W) }, 2, false },
                { { SPECIAL(ROOT, W), AT("\\\\host\\share", R) }, 2, false },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(a_profile_that_is_not_managed_or_not_restricted_has_all_files)
{
        static const struct profile profiles[] = {
                { .kind = PROFILE_DISABLED, .has_network = true },
                { .kind = PROFILE_EXTERNAL },
                { .kind = PROFILE_MANAGED, .is_unrestricted = true },
        };

        for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
                ok(profile_writes_all(&profiles[i]));
                ok(!profile_limits_files(&profiles[i]) && !profile_needs_cwd(&profiles[i]));
        }
}

TEST(a_profile_that_restricts_files_or_the_network_is_enforced)
{
        struct profile_entry root = SPECIAL(ROOT, R);
        const struct {
                struct profile profile;
                bool must;
        } rows[] = {
                { { .kind = PROFILE_DISABLED, .has_network = true }, false },
                { { .kind = PROFILE_EXTERNAL, .has_network = true }, false },
                { { .kind = PROFILE_EXTERNAL }, true },
                { { .kind = PROFILE_MANAGED, .is_unrestricted = true, .has_network = true }, false },
                { { .kind = PROFILE_MANAGED, .is_unrestricted = true }, true },
                { { .kind = PROFILE_MANAGED, .has_network = true, .entries = &root, .count = 1 }, true },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                ok(profile_must_enforce(&rows[i].profile) == rows[i].must);
}

TEST(project_roots_and_relative_patterns_need_a_cwd)
{
        static const struct {
                struct profile_entry entry;
                bool needs;
        } rows[] = {
                { SPECIAL(PROJECT_ROOTS, W), true },
                { BELOW(PROJECT_ROOTS, "docs", R), true },
                { GLOB("**/*.env", D), true },
                { GLOB("codex-project-roots://*.env", D), true },
                { GLOB("", D), true },
                { GLOB("/**/*.env", D), false },
                { SPECIAL(ROOT, R), false },
                { SPECIAL(TMPDIR, R), false },
                { AT("/a", W), false },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct profile_entry entry = rows[i].entry;
                struct profile p = { .kind = PROFILE_MANAGED, .entries = &entry, .count = 1 };
                ok(profile_needs_cwd(&p) == rows[i].needs);
        }
}
