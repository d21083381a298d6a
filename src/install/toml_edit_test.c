/* toml_edit_test: what is added to config.toml of Codex, that taking it away gives the old bytes, and what is refused. */
#include "install/toml_edit.h"

#include "unit.h"

#include <errno.h>

static const char *const words[] = { "mcp", "a\"b" };
static const struct entry entry = { "/bin/f", words, 1 };
static const struct config_shape shape = { FORM_TOML, "mcp_servers", false };

#define TABLE "[mcp_servers.farhand]\ncommand = \"/bin/f\"\nargs = [\"mcp\"]"

static void adds(const char *text, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice old = slice_from_str(text), new, back = S("untouched");

        if (toml_edit_add(&a, text ? &old : NULL, &shape, &entry, &new, &err) != EDIT_CHANGED)
                fail_msg("%s: %s", text, err.text);
        if (expect)
                eq_str(new.p, expect);
        eq_int(toml_edit_add(&a, &new, &shape, &entry, &back, &err), EDIT_NOTHING);
        eq_int(toml_edit_remove(&a, new, &shape, &back, &err), text ? EDIT_CHANGED : EDIT_EMPTY);
        eq_slice(back, text ? old : S("untouched"));
}

static void refuses(const char *text, int code, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice old = slice_from_str(text), new = S("untouched");

        eq_int(toml_edit_add(&a, &old, &shape, &entry, &new, &err), code);
        eq_str(err.text, expect);
        eq_slice(new, S("untouched"));
}

TEST(the_table_stands_at_the_end_and_the_rest_stays)
{
        adds(NULL, TABLE "\n");
        adds("", "\n" TABLE "\n");
        adds("\n", "\n\n" TABLE "\n");
        adds("a = 1\n", "a = 1\n\n" TABLE "\n");
        adds("a = 1", "a = 1\n\n" TABLE);
        adds("# only a comment", "# only a comment\n\n" TABLE);
        adds("a = 1\n\n\n", "a = 1\n\n\n\n" TABLE "\n");
        adds("a = 1\r\n[b]\r\n",
             "a = 1\r\n[b]\r\n\r\n[mcp_servers.farhand]\r\ncommand = \"/bin/f\"\r\nargs = [\"mcp\"]\r\n");
        adds("\xef\xbb\xbf", NULL);
        adds("\xef\xbb\xbf"
             "a = 1",
             NULL);
        adds("[mcp_servers.x]\ncommand = 'y'\n[mcp_servers]\n", NULL);
        adds("a = \"\"\"\n[mcp_servers.farhand]\n\"\"\"\"\"\nb = '''x''''\nc = [\n  \"]\", # ]\n  '[', ]\n",
             NULL);
        adds("\"a#b\" = '' # '\n[ \"x]\" . y ] # c\n", NULL);
        adds("mcp_servers.x.command = 'y'\n", NULL);
}

TEST(toml_that_is_not_understood_is_refused_with_its_place)
{
        refuses("a = 1\nb = \n", -EINVAL, "line 2, column 5: expected a value, found the end of the line");
        refuses("mcp_servers = { x = { command = 'y' } }\n", -EINVAL,
                "a table [mcp_servers.farhand] cannot be added: line 3, column 2: 'mcp_servers' is already "
                "defined in "
                "line 1");
        refuses("[[mcp_servers]]\ncommand = 'y'\n", -EEXIST,
                "a table [mcp_servers.farhand] cannot be added: mcp_servers in line 1 is no table");
        refuses("[mcp_servers.farhand]\ncommand = 'other'\n", -EEXIST,
                "it has another table [mcp_servers.farhand] already, in line 1");
}

static void removes(const char *text, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice out;

        if (toml_edit_remove(&a, slice_from_str(text), &shape, &out, &err) != EDIT_CHANGED)
                fail_msg("%s: %s", text, err.text);
        eq_slice(out, slice_from_str(expect));
}

TEST(the_table_is_taken_out_of_any_place_with_those_below_it)
{
        removes("[mcp_servers.farhand]\ncommand = 'x'\n\n[b]\nc = 1\n", "\n[b]\nc = 1\n");
        removes("a = 1\n\n[mcp_servers.farhand]\nargs = [ # [\n'[b]',\n]\n\n# of b\n[b]\n",
                "a = 1\n\n# of b\n[b]\n");
        removes("[mcp_servers.farhand]\ncommand = 'x'\n[mcp_servers.farhand.env]\nA = 'b' # c\n[b]\n",
                "[b]\n");
        removes("[mcp_servers.farhand.env]\nA = 'b'\n\n[b]\n\n[ mcp_servers . 'farhand' ]\ncommand = 'x'",
                "\n[b]");
        removes("a = 1\n[mcp_servers.farhand]\n", "a = 1\n");
}

TEST(an_entry_in_another_form_is_left_alone)
{
        static const char *const texts[] = { "mcp_servers = { farhand = { command = 'x' } }\n",
                                             "[mcp_servers]\nfarhand.command = 'x'\n",
                                             "mcp_servers.farhand.command = 'x'\n" };

        for (size_t i = 0; i < 3; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct slice out = S("untouched");
                eq_int(toml_edit_remove(&a, slice_from_str(texts[i]), &shape, &out, &err), -EEXIST);
                eq_slice(out, S("untouched"));
        }
}

TEST(every_truncation_of_toml_is_refused_or_taken_back)
{
        static const char text[] = "# c\r\na = [1, # ]\r\n '''x\r\n[y]''' ]\r\n[b.\"[\"]\r\nd = \"\\\"#\" # "
                                   "e\r\n[mcp_servers.z]\r\n"
                                   "command = \"\"\"\"q\"\"\"\"\r\n  \r\n";

        for (size_t n = 0; n < sizeof(text); n++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct slice part = slice_from(text, n), new, back;

                int r = toml_edit_add(&a, &part, &shape, &entry, &new, &err);
                ok(r == EDIT_CHANGED || r == -EINVAL);
                if (r < 0)
                        continue;
                eq_int(toml_edit_remove(&a, new, &shape, &back, &err), EDIT_CHANGED);
                eq_slice(back, part);
        }
}
