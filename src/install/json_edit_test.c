/* json_edit_test: what is added to a JSON configuration, that taking it away gives the old bytes, and what is refused. */
#include "install/json_edit.h"

#include "unit.h"

#include <errno.h>

static const char *const words[] = { "mcp", "--env", "a\"b" };
static const struct entry entry = { "/bin/f", words, 1 };
static const struct config_shape strict = { FORM_JSON, "mcpServers", false };
static const struct config_shape comments = { FORM_JSON_COMMENTS, "mcpServers", false };
static const struct config_shape commas = { FORM_JSON_COMMENTS_COMMAS, "mcpServers", false };

#define LINE "\"farhand\": {\"command\": \"/bin/f\", \"args\": [\"mcp\"]}"

/* Adds the entry, compares, adds it again, and takes it away. */
static void adds(const char *text, const struct config_shape *shape, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice old = slice_from_str(text), new, back = S("untouched");

        if (json_edit_add(&a, text ? &old : NULL, shape, &entry, &new, &err) != EDIT_CHANGED)
                fail_msg("%s: %s", text, err.text);
        if (expect)
                eq_str(new.p, expect);
        eq_int(json_edit_add(&a, &new, shape, &entry, &back, &err), EDIT_NOTHING);
        int r = json_edit_remove(&a, new, shape, &back, &err);
        eq_int(r, text ? EDIT_CHANGED : EDIT_EMPTY);
        eq_slice(back, text ? old : S("untouched"));
}

static void refuses(const char *text, const struct config_shape *shape, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice old = slice_from_str(text), new = S("untouched");

        ok(json_edit_add(&a, &old, shape, &entry, &new, &err) < 0);
        eq_str(err.text, expect);
        eq_slice(new, S("untouched"));
}

TEST(a_new_file_is_written_on_lines)
{
        adds(NULL, &strict,
             "{\n  \"mcpServers\": {\n    \"farhand\": {\n      \"command\": \"/bin/f\",\n"
             "      \"args\": [\"mcp\"]\n    }\n  }\n}\n");
}

TEST(a_member_takes_the_layout_of_its_neighbours)
{
        adds("{\n\t\"a\": 1\n}\n", &strict,
             "{\n\t\"a\": 1,\n\t\"mcpServers\": {\n\t\t\"farhand\": {\n\t\t\t\"command\": \"/bin/f\",\n"
             "\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t}\n}\n");
        adds("{\r\n \"mcpServers\": {\r\n  \"x\": {}\r\n } }", &strict,
             "{\r\n \"mcpServers\": {\r\n  \"x\": {},\r\n  \"farhand\": {\r\n   \"command\": \"/bin/f\",\r\n"
             "   \"args\": [\"mcp\"]\r\n  }\r\n } }");
        adds("{\"a\":1}", &strict, "{\"a\":1, \"mcpServers\": { " LINE " }}");
        adds("{\"mcpServers\":{\"x\":{}},\"b\":2}", &strict, "{\"mcpServers\":{\"x\":{}, " LINE "},\"b\":2}");
}

TEST(an_empty_object_that_was_there_stays)
{
        adds("{}", &strict, "{\"mcpServers\": { " LINE " }}");
        adds("{\n}\n", &strict, "{\"mcpServers\": { " LINE " }\n}\n");
        adds("{\n  \"mcpServers\": {}\n}", &strict, "{\n  \"mcpServers\": {" LINE "}\n}");
        adds("{\"mcpServers\": { }}", &strict, "{\"mcpServers\": {" LINE " }}");
        adds("{\n  \"mcpServers\": {\n  }\n}", &strict, "{\n  \"mcpServers\": {" LINE "\n  }\n}");
}

TEST(comments_stay_where_they_are)
{
        adds("// top\n{ // open\n  \"a\": 1 // one\n  /* end */\n}\n// last", &comments,
             "// top\n{ // open\n  \"a\": 1, // one\n  /* end */\n  \"mcpServers\": {\n    \"farhand\": {\n"
             "      \"command\": \"/bin/f\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n// last");
        adds("{\"a\": \"// no comment\" // one\n}", &comments,
             "{\"a\": \"// no comment\", // one\n\"mcpServers\": { " LINE " }\n}");
        adds("{\n  \"mcpServers\": {\n    // none yet\n  }\n}", &comments,
             "{\n  \"mcpServers\": {\n    // none yet\n    \"farhand\": {\n      \"command\": \"/bin/f\",\n"
             "      \"args\": [\"mcp\"]\n    }\n  }\n}");
        adds("{/**/}", &comments, "{/**/ \"mcpServers\": { " LINE " }}");
        adds("{\"mcpServers\": {\"x\": 1 /* , */ }}", &comments, NULL);
}

TEST(a_comma_behind_the_last_member_stays_the_last)
{
        adds("{\n  \"mcpServers\": {\n    \"x\": [1,],\n  },\n}\n", &commas,
             "{\n  \"mcpServers\": {\n    \"x\": [1,],\n    \"farhand\": {\n      \"command\": \"/bin/f\",\n"
             "      \"args\": [\"mcp\"]\n    },\n  },\n}\n");
        adds("{\"a\": 1 /* x */ , /* y */ }", &commas,
             "{\"a\": 1 /* x */ , /* y */ \"mcpServers\": { " LINE " }, }");
}

TEST(the_mark_of_utf8_and_white_space_around_stay)
{
        adds("\xef\xbb\xbf{\n  \"a\": \"\xc3\xbc\"\n}\n\n", &strict, NULL);
        adds(" \t\r\n{} \n ", &strict, NULL);
        adds("{\n\n\n  \"a\": 1\n\n\n}\n", &strict, NULL);
        adds("{\n  \"mcp\\u0053ervers\": {\"x\": 1}\n}", &strict,
             "{\n  \"mcp\\u0053ervers\": {\"x\": 1, " LINE "}\n}");
}

TEST(what_is_not_understood_is_refused_with_its_place)
{
        refuses("", &strict, "EOF while parsing a value at line 1 column 0");
        refuses("{\n  \"a\": 1,\n}", &strict, "trailing comma at line 3 column 1");
        refuses("{\n  // note\n}", &strict, "key must be a string at line 2 column 3");
        refuses("{\n  \"a\": 1,\n}", &comments, "trailing comma at line 3 column 1");
        refuses("{,}", &commas, "key must be a string at line 1 column 2");
        refuses("{\"a\": [,]}", &commas, "expected value at line 1 column 8");
        refuses("{} /* open", &commas, "trailing characters at line 1 column 4");
        refuses("{ // bare\r}", &commas, "key must be a string at line 1 column 3");
        refuses("[]", &strict, "it holds no object");
        refuses("{\"mcpServers\": null}", &strict, "its member \"mcpServers\" is no object");
        refuses("{\"a\": 1, \"a\": 2}", &strict, "duplicate JSON object key `a` at line 1 column 12");
        refuses("{\"mcpServers\": {\"farhand\": {\"command\": \"other\"}}}", &strict,
                "it has another entry \"farhand\" already");
}

TEST(words_are_escaped)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct entry odd = { "/a b\\c", words, 3 };
        struct slice text = S("{\"a\":1}"), new, back;

        eq_int(json_edit_add(&a, &text, &strict, &odd, &new, &err), EDIT_CHANGED);
        eq_str(new.p, "{\"a\":1, \"mcpServers\": { \"farhand\": {\"command\": \"/a b\\\\c\", "
                      "\"args\": [\"mcp\", \"--env\", \"a\\\"b\"]} }}");
        eq_int(json_edit_add(&a, &new, &strict, &odd, &back, &err), EDIT_NOTHING);
        eq_int(json_edit_add(&a, &new, &strict, &entry, &back, &err), -EEXIST);
}

/* What the client or a person has made of the file since. */
static void removes(const char *text, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice out;

        eq_int(json_edit_remove(&a, slice_from_str(text), &commas, &out, &err), EDIT_CHANGED);
        eq_slice(out, slice_from_str(expect));
}

TEST(the_entry_is_taken_out_of_any_place)
{
        removes("{\"mcpServers\":{\"farhand\":1,\"x\":2}}", "{\"mcpServers\":{\"x\":2}}");
        removes("{\"mcpServers\":{\"x\":2 , \"farhand\":{\"env\":{}}, \"y\":3}}",
                "{\"mcpServers\":{\"x\":2 , \"y\":3}}");
        removes("{\"mcpServers\":{\"x\":2 /* , */ ,\n // z\n \"farhand\":\"s\" }}",
                "{\"mcpServers\":{\"x\":2 /* , */ \n // z }}");
        removes("{\"a\":1,\"mcpServers\": {\n \"farhand\": {}\n}}", "{\"a\":1}");
        removes("{\"mcpServers\": {\n \"farhand\": {}\n}, \"a\":1}", "{ \"a\":1}");
        removes("{\"mcpServers\": { /* mine */ \"farhand\": {}}}", "{\"mcpServers\": { /* mine */}}");
        removes("\n{ \"mcpServers\": { \"farhand\": {} }}", "\n{}");
}

TEST(every_truncation_is_refused_or_taken_back)
{
        static const char text[] = "/* c */ {\r\n  \"a\": [1, {\"b\": \"\\\"x\\\\\"},], // l\r\n"
                                   "  \"mcpServers\": {\r\n    \"x\": {}, /* , */\r\n  },\r\n}\r\n// end";

        for (size_t n = 0; n < sizeof(text); n++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct slice part = slice_from(text, n), new, back;

                int r = json_edit_add(&a, &part, &commas, &entry, &new, &err);
                ok(r == EDIT_CHANGED || r == -EINVAL);
                if (r < 0)
                        continue;
                eq_int(json_edit_remove(&a, new, &commas, &back, &err), EDIT_CHANGED);
                eq_slice(back, part);
        }
}
