/* discover_test: which plugins and skills are found below a root, and the warnings about those that are not. */
#include "codex/discover.h"

#include "base/mem.h"
#include "fsop/rig.h"
#include "unit.h"

/* Reads a member of a manifest in the form of these tests, which have a line "member=text", or "member={" for an object. */
static enum manifest_says read_lines(UNUSED struct arena *a, struct slice manifest, struct slice member,
                                     struct slice *ret_string)
{
        while (manifest.n > 0) {
                struct slice value = slice_split(&manifest, '\n');
                struct slice name = slice_split(&value, '=');
                if (!slice_eq(name, member))
                        continue;
                if (slice_eq(value, S("{")))
                        return MANIFEST_OBJECT;
                *ret_string = value;
                return MANIFEST_STRING;
        }
        return MANIFEST_NOTHING;
}

/* Makes the directories of the path, then the file. */
static void put(const struct rig *rig, const char *name, struct slice content)
{
        char part[PATH_MAX];

        for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/')) {
                snprintf(part, sizeof(part), "%.*s", (int)(p - name), name);
                (void)mkdir(rig_path(rig, part), 0755);
        }
        rig_file(rig, name, content);
}

struct report {
        char text[16384];
        size_t n;
};

static void say(struct report *r, const char *label, struct slice text)
{
        r->n += (size_t)snprintf(r->text + r->n, sizeof(r->text) - r->n, "%s%.*s\n", label, SLICE(text));
        must(r->n < sizeof(r->text));
}

/* Removes the path of the rig's directory wherever it occurs in the text. */
static struct slice below(const struct rig *rig, const char *text)
{
        static char copy[8192];
        size_t n = 0, root = strlen(rig->root);

        while (*text && n < sizeof(copy) - 1) {
                bool is_root = strncmp(text, rig->root, root) == 0;
                text += is_root ? root : 0;
                if (*text)
                        copy[n++] = *text++;
        }
        return slice_from(copy, n);
}

/* Writes a line for each thing found: P plugin, M MCP, A apps, N namespace, S skill, Y metadata of a skill, W warning, E error. */
static const char *discover(const struct rig *rig, const char *root)
{
        static struct report r;
        _arena_ struct arena a = ARENA_INIT;
        struct discovery d;

        r = (struct report){ 0 };
        fsop_discover(&a, rig_path(rig, root), read_lines, &d);
        if (d.has_manifest)
                say(&r, "P ", below(rig, d.manifest.path.p));
        if (d.has_mcp_config)
                say(&r, "M ", below(rig, d.mcp_config.path.p));
        if (d.has_apps_config)
                say(&r, "A ", below(rig, d.apps_config.path.p));
        for (size_t i = 0; i < d.namespace_count; i++)
                say(&r, "N ", below(rig, d.namespace_manifests[i].path.p));
        for (size_t i = 0; i < d.skill_count; i++) {
                say(&r, "S ", below(rig, d.skills[i].instructions.path.p));
                if (d.skills[i].has_metadata)
                        say(&r, "Y ", below(rig, d.skills[i].metadata.path.p));
        }
        for (size_t i = 0; i < d.warning_count; i++)
                say(&r, "W ", below(rig, d.warnings[i]));
        if (d.error)
                say(&r, "E ", below(rig, d.error));
        return r.text;
}

TEST(plugin_with_its_files_and_skills_is_found)
{
        _rig_ struct rig rig = rig_new();
        _arena_ struct arena a = ARENA_INIT;
        struct discovery d;

        put(&rig, "r/.claude-plugin/plugin.json", S("C"));
        put(&rig, "r/.codex-plugin/plugin.json", S("X"));
        put(&rig, "r/.mcp.json", S("M"));
        put(&rig, "r/.app.json", S("A"));
        put(&rig, "r/skills/one/SKILL.md", S("# one"));
        put(&rig, "r/skills/one/agents/openai.yaml", S("a: 1"));
        put(&rig, "r/skills/two/SKILL.md", S(""));
        put(&rig, "r/skills/two/skill.md", S("not this one"));

        eq_str(discover(&rig, "r//"), "P /r/.codex-plugin/plugin.json\n"
                                      "M /r/.mcp.json\n"
                                      "A /r/.app.json\n"
                                      "N /r/.codex-plugin/plugin.json\n"
                                      "S /r/skills/one/SKILL.md\n"
                                      "Y /r/skills/one/agents/openai.yaml\n"
                                      "S /r/skills/two/SKILL.md\n");

        fsop_discover(&a, rig_path(&rig, "r"), read_lines, &d);
        eq_slice(d.manifest.contents, S("X"));
        eq_slice(d.skills[0].instructions.contents, S("# one"));
        eq_slice(d.skills[0].metadata.contents, S("a: 1"));
        eq_slice(d.skills[1].instructions.contents, S(""));
        eq_slice(d.namespace_manifests[0].contents, S("X"));
}

TEST(root_must_be_a_directory)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "file", S(""));
        rig_link(&rig, "broken", "nothing");
        eq_str(discover(&rig, "none"),
               "E failed to inspect capability root file:///none: No such file or directory (os error 2)\n");
        eq_str(discover(&rig, "broken"), "E failed to inspect capability root file:///broken: No such file "
                                         "or directory (os error 2)\n");
        eq_str(discover(&rig, "file/x"),
               "E failed to inspect capability root file:///file/x: Not a directory (os error 20)\n");
        eq_str(discover(&rig, "file"), "E capability root file:///file is not a directory\n");
        eq_str(discover(&rig, ""), "");
}

TEST(skills_are_sorted_by_uri_and_found_six_levels_down)
{
        _rig_ struct rig rig = rig_new();

        put(&rig, "s/a/SKILL.md", S(""));
        put(&rig, "s/a-b/SKILL.md", S(""));
        put(&rig, "s/c d/SKILL.md", S(""));
        put(&rig, "s/c!d/SKILL.md", S(""));
        put(&rig, "s/.h/SKILL.md", S(""));
        put(&rig, "s/1/2/3/4/5/6/SKILL.md", S(""));
        put(&rig, "s/1/2/3/4/5/6/7/SKILL.md", S(""));
        put(&rig, "s/d\xff/SKILL.md", S(""));
        eq_str(discover(&rig, "s"), "S /s/.h/SKILL.md\n"
                                    "S /s/1/2/3/4/5/6/SKILL.md\n"
                                    "S /s/a-b/SKILL.md\n"
                                    "S /s/a/SKILL.md\n"
                                    "S /s/c!d/SKILL.md\n"
                                    "S /s/c d/SKILL.md\n"
                                    "S /s/d\xff/SKILL.md\n");
}

TEST(linked_directories_are_entered_once_and_linked_skills_are_not_skills)
{
        _rig_ struct rig rig = rig_new();

        put(&rig, "l/real/SKILL.md", S(""));
        rig_link(&rig, "l/again", "real");
        rig_link(&rig, "l/self", ".");
        put(&rig, "l/f/x", S(""));
        rig_link(&rig, "l/f/SKILL.md", "../real/SKILL.md");
        rig_directory(&rig, "l/d");
        rig_directory(&rig, "l/d/SKILL.md");
        rig_directory(&rig, "l/p");
        rig_fifo(&rig, "l/p/SKILL.md");
        eq_str(discover(&rig, "l"), "S /l/again/SKILL.md\n");
}

TEST(nearest_manifest_above_names_a_root_without_one)
{
        _rig_ struct rig rig = rig_new();

        put(&rig, "n/.codex-plugin/plugin.json", S("R"));
        put(&rig, "n/-r/in/.cursor-plugin/plugin.json", S("I"));
        put(&rig, "n/-r/in/.claude-plugin/plugin.json", S("I"));
        put(&rig, "n/-r/in-b/.claude-plugin/plugin.json", S("I"));
        put(&rig, "n/-r/in/b/.claude-plugin/plugin.json", S("I"));
        eq_str(discover(&rig, "n/-r"), "N /n/.codex-plugin/plugin.json\n"
                                       "N /n/-r/in/.claude-plugin/plugin.json\n"
                                       "N /n/-r/in-b/.claude-plugin/plugin.json\n"
                                       "N /n/-r/in/b/.claude-plugin/plugin.json\n");
        eq_str(discover(&rig, "n/-r/in/b"), "P /n/-r/in/b/.claude-plugin/plugin.json\n"
                                            "N /n/-r/in/b/.claude-plugin/plugin.json\n");
        eq_str(discover(&rig, "n/.codex-plugin"), "N /n/.codex-plugin/plugin.json\n");
}

TEST(manifest_may_name_other_files_below_the_root)
{
        _rig_ struct rig rig = rig_new();
        static const struct {
                struct slice manifest;
                const char *found;
        } cases[] = {
                { S("mcpServers=./c.json\napps=./sub/./c.json"), "M /m/c.json\nA /m/sub/c.json\n" },
                { S("mcpServers={\napps={"), "A /m/.app.json\n" },
                { S("mcpServers=./none.json\napps=./sub"), "" },
                { S("mcpServers=./.\napps=./sub//c.json/"), "A /m/sub/c.json\n" },
                { S("mcpServers=c.json"), "M /m/.mcp.json\nA /m/.app.json\n"
                                          "W ignoring mcpServers in file:///m/.codex-plugin/plugin.json: "
                                          "path must start with `./`\n" },
                { S("apps=./sub/../c.json"), "M /m/.mcp.json\nA /m/.app.json\n"
                                             "W ignoring apps in file:///m/.codex-plugin/plugin.json: path "
                                             "must remain below the capability "
                                             "root\n" },
                { S("apps=./"),
                  "M /m/.mcp.json\nA /m/.app.json\n"
                  "W ignoring apps in file:///m/.codex-plugin/plugin.json: path must remain below "
                  "the capability root\n" },
                { S("apps=.//etc/passwd"),
                  "M /m/.mcp.json\nA /m/.app.json\n"
                  "W ignoring apps in file:///m/.codex-plugin/plugin.json: path must "
                  "remain below the capability root\n" },
                { S("apps=./a\0b"),
                  "M /m/.mcp.json\nA /m/.app.json\n"
                  "W ignoring apps in file:///m/.codex-plugin/plugin.json: path must remain "
                  "below the capability root\n" },
        };

        put(&rig, "m/.mcp.json", S(""));
        put(&rig, "m/.app.json", S(""));
        put(&rig, "m/c.json", S(""));
        put(&rig, "m/sub/c.json", S(""));
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                put(&rig, "m/.codex-plugin/plugin.json", cases[i].manifest);
                const char *text = discover(&rig, "m");
                const char *names[] = { "P /m/.codex-plugin/plugin.json\n",
                                        "N /m/.codex-plugin/plugin.json\n" };
                char rest[4096], *n;

                ok(slice_starts(slice_from_str(text), slice_from_str(names[0])));
                snprintf(rest, sizeof(rest), "%s", text + strlen(names[0]));
                n = strstr(rest, names[1]);
                assert_non_null(n);
                memmove(n, n + strlen(names[1]), strlen(n + strlen(names[1])) + 1);
                eq_str(rest, cases[i].found);
        }
}

TEST(files_that_are_not_utf8_are_warnings)
{
        _rig_ struct rig rig = rig_new();

        put(&rig, "u/.codex-plugin/plugin.json", S("\xff"));
        put(&rig, "u/.claude-plugin/plugin.json", S("ok"));
        put(&rig, "u/.mcp.json", S("ab\xe2\x82"));
        put(&rig, "u/.app.json", S("abc\xe2(x"));
        put(&rig, "u/s/SKILL.md", S("\xf0\x90("));
        put(&rig, "u/t/SKILL.md", S("\xed\xa0\x80"));
        put(&rig, "u/v/SKILL.md", S("v"));
        put(&rig, "u/v/agents/openai.yaml", S("\xf0\x9f\x98"));
        eq_str(discover(&rig, "u"), "P /u/.claude-plugin/plugin.json\n"
                                    "N /u/.claude-plugin/plugin.json\n"
                                    "S /u/v/SKILL.md\n"
                                    "W capability file file:///u/.codex-plugin/plugin.json is not UTF-8: "
                                    "invalid utf-8 sequence of 1 "
                                    "bytes from index 0\n"
                                    "W capability file file:///u/.mcp.json is not UTF-8: incomplete utf-8 "
                                    "byte sequence from index 2\n"
                                    "W capability file file:///u/.app.json is not UTF-8: invalid utf-8 "
                                    "sequence of 1 bytes from index 3\n"
                                    "W capability file file:///u/s/SKILL.md is not UTF-8: invalid utf-8 "
                                    "sequence of 2 bytes from index 0\n"
                                    "W capability file file:///u/t/SKILL.md is not UTF-8: invalid utf-8 "
                                    "sequence of 1 bytes from index 0\n"
                                    "W capability file file:///u/v/agents/openai.yaml is not UTF-8: "
                                    "incomplete utf-8 byte sequence from "
                                    "index 0\n");
}

static void put_sized(const struct rig *rig, const char *name, size_t bytes)
{
        _free_ char *content = mem_alloc(bytes);

        memset(content, 'x', bytes);
        put(rig, name, slice_from(content, bytes));
}

TEST(files_and_roots_are_bounded)
{
        _rig_ struct rig rig = rig_new();
        char name[64], wanted[2048];
        size_t n = 0;

        put_sized(&rig, "b/a/SKILL.md", DISCOVER_FILE_BYTES);
        put_sized(&rig, "b/b/SKILL.md", DISCOVER_FILE_BYTES + 1);
        eq_str(discover(&rig, "b"),
               "S /b/a/SKILL.md\n"
               "W capability file file:///b/b/SKILL.md exceeds the 1048576-byte limit\n");

        for (int i = 0; i < 17; i++) {
                snprintf(name, sizeof(name), "t/%02d/SKILL.md", i);
                put_sized(&rig, name, DISCOVER_FILE_BYTES - (i == 0 ? 5 : 0));
                if (i < 16)
                        n += (size_t)snprintf(wanted + n, sizeof(wanted) - n, "S /%s\n", name);
        }
        put(&rig, "t/99/SKILL.md", S("small"));
        n += (size_t)snprintf(wanted + n, sizeof(wanted) - n, "S /t/99/SKILL.md\n");
        snprintf(wanted + n, sizeof(wanted) - n,
                 "W capability root bundle exceeds the 16777216-byte limit\n");
        eq_str(discover(&rig, "t"), wanted);
}

TEST(what_cannot_be_looked_at_is_a_warning)
{
        _rig_ struct rig rig = rig_new();

        put(&rig, "w/.codex-plugin", S("a file"));
        put(&rig, "w/SKILL.md", S(""));
        rig_link(&rig, "w/agents", "agents");
        rig_directory(&rig, "w/.claude-plugin");
        rig_fifo(&rig, "w/.claude-plugin/plugin.json");
        eq_str(discover(&rig, "w"), "S /w/SKILL.md\n"
                                    "W failed to inspect capability file "
                                    "file:///w/.codex-plugin/plugin.json: Not a directory (os error "
                                    "20)\n"
                                    "W failed to inspect capability file file:///w/agents/openai.yaml: "
                                    "Symbolic link loop (os error 40)\n");
}

TEST(scan_that_reaches_its_limit_says_so)
{
        _rig_ struct rig rig = rig_new();
        char name[64];

        rig_directory(&rig, "d");
        for (int i = 0; i < DISCOVER_DIRECTORIES; i++) {
                snprintf(name, sizeof(name), "d/%04d", i);
                rig_directory(&rig, name);
        }
        put(&rig, "d/1998/SKILL.md", S("near"));
        put(&rig, "d/1999/SKILL.md", S("far"));
        eq_str(discover(&rig, "d"), "S /d/1998/SKILL.md\n"
                                    "W capability scan reached its traversal limit (root: file:///d)\n");
}
