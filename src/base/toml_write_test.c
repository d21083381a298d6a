/* toml_write_test: that written TOML is read back as the same, and which parts of a file the paths select. */
#include "base/toml_write.h"

#include "unit.h"

#include <errno.h>

static const char *written(struct arena *a, const struct toml *table)
{
        _buf_ struct buf out = BUF_INIT(1 << 20);
        eq_int(toml_write(&out, table), 0);
        return arena_dup(a, buf_slice(&out));
}

static const struct toml *parsed(struct arena *a, const char *text)
{
        struct err err = ERR_INIT;
        const struct toml *root = toml_parse(a, slice_from_str(text), &err);
        eq_str(err.text, "");
        return root;
}

TEST(what_is_written_reads_as_the_same)
{
        static const char *const texts[] = {
                "",
                "a = 1\n",
                "a = -9223372036854775808\nb = true\nc = false\nd = \"\"\n",
                "a = 1.0\nb = 0.1\nc = 1e+300\nd = inf\ne = -inf\nf = nan\n",
                "a = \"q\\\"b\\\\t\\tn\\nz\\u0001\\u007Fü\"\n",
                "\"\" = 1\n\"a b\" = 2\n\"ü\" = 3\na-b_9 = 4\n",
                "a = [1, [2], [], \"x\", {b = 1, c = [{}]}]\n",
                "a = 1\n\n[t]\nb = 2\n\n[t.u.\"v w\"]\nc = 3\n\n[e]\n",
        };

        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(written(&a, parsed(&a, texts[i])), texts[i]);
        }
}

TEST(forms_that_are_not_kept)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(written(&a,
                       parsed(&a, "x.y = 0x10 # why\nz = '''a\nb'''\n[[l]]\nk = 1\n[[l]]\nm = {n.o=2}\n")),
               "z = \"a\\nb\"\nl = [{k = 1}, {m = {n = {o = 2}}}]\n\n[x]\ny = 16\n");
}

TEST(a_ceiling_is_an_error)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct toml *table = parsed(&a, "a = [1, {b = \"x\"}]\n[t.u]\nc = 2.5\n");

        for (size_t cap = 0;; cap++) {
                _buf_ struct buf out = BUF_INIT(cap);
                if (toml_write(&out, table) == 0)
                        break;
                ok(cap < 64);
        }
}

TEST(a_part_is_what_the_paths_lead_to)
{
        static const struct {
                const char *paths, *wanted; /* `/` separates keys, a blank separates paths */
        } rows[] = {
                { "m", "m = 1\n" },
                { "s", "[s.d]\nc = \"t\"\nl = [\"a\"]\n\n[s.d.e]\nA = \"1\"\n\n[s.f]\nc = \"u\"\n" },
                { "s/d/e m", "m = 1\n\n[s.d.e]\nA = \"1\"\n" },
                { "s/d/l/0", "[s.d]\nl = [\"a\"]\n" },
                { "s/d s/d/e", "[s.d]\nc = \"t\"\nl = [\"a\"]\n\n[s.d.e]\nA = \"1\"\n" },
                { "s/f s/d/c", "[s.d]\nc = \"t\"\n\n[s.f]\nc = \"u\"\n" },
                { "m/x/y", "m = 1\n" },
                { "none s/none s/d/e/A/x", "[s.d.e]\nA = \"1\"\n" },
                { "none s/none", NULL },
        };
        _arena_ struct arena a = ARENA_INIT;
        const struct toml *root =
                parsed(&a, "m = 1\n[s.d]\nc = \"t\"\nl = [\"a\"]\n[s.d.e]\nA = \"1\"\n[s.f]\nc = \"u\"\n");

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct toml_path paths[4];
                struct slice keys[4][8];
                size_t count = 0;
                for (struct slice rest = slice_from_str(rows[i].paths); rest.p; count++) {
                        struct slice path = slice_split(&rest, ' ');
                        paths[count] = (struct toml_path){ keys[count], 0 };
                        while (path.p)
                                keys[count][paths[count].count++] = slice_split(&path, '/');
                }
                const struct toml *part = toml_select(&a, root, paths, count);
                if (!rows[i].wanted)
                        ok(part == NULL);
                else
                        eq_str(written(&a, part), rows[i].wanted);
        }
        ok(toml_select(&a, root, NULL, 0) == NULL);
}
