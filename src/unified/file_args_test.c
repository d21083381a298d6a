#include "unified/file_args.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "unit.h"

/* Decodes the arguments, with ' for ". Returns the error without its first words, or "". */
static const char *decode(struct arena *a, enum unified_tool tool, const char *text, struct file_args *ret)
{
        static const char words[] = "failed to parse function arguments: ";
        struct json_doc doc;
        struct json_error bad;
        struct err err = ERR_INIT;
        size_t n = strlen(text);
        char *copy = arena_zalloc(a, n + BUF_PADDING);
        for (size_t i = 0; i < n; i++)
                copy[i] = (char)(text[i] == '\'' ? '"' : text[i]);
        ok(json_parse(a, slice_from(copy, n), &doc, &bad) == 0);
        if (file_args_decode(a, &doc, tool, json_root(&doc), ret, &err) == 0)
                return "";
        ok(strncmp(err.text, words, strlen(words)) == 0);
        return arena_dup(a, slice_from_str(err.text + strlen(words)));
}

TEST(each_tool_has_its_members)
{
        _arena_ struct arena a = ARENA_INIT;
        struct file_args args;
        eq_str(decode(&a, UNIFIED_READ_FILE, "{'path':'x'}", &args), "");
        ok(args.offset == 1 && args.limit == FILE_LINES && !args.environment_id);
        eq_str(decode(&a, UNIFIED_READ_FILE, "{'path':'x','offset':7,'limit':9,'environment_id':'e'}", &args),
               "");
        ok(args.offset == 7 && args.limit == 9);
        eq_str(args.environment_id, "e");
        eq_str(decode(&a, UNIFIED_WRITE_FILE, "{'path':'x','content':'a\\u0000b','create_parents':true}",
                      &args),
               "");
        ok(args.content.n == 3 && args.create_parents);
        eq_str(decode(&a, UNIFIED_WRITE_FILE, "{'path':'x','content':'','create_parents':null}", &args), "");
        ok(args.content.p && args.content.n == 0 && !args.create_parents);
        eq_str(decode(&a, UNIFIED_LIST_DIRECTORY, "{'path':'x','after':'y'}", &args), "");
        eq_str(args.after, "y");
        eq_str(decode(&a, UNIFIED_VIEW_IMAGE, "{'path':'x'}", &args), "");
}

TEST(mistakes_are_told)
{
        static const struct {
                enum unified_tool tool;
                const char *text, *error;
        } rows[] = {
                { UNIFIED_READ_FILE, "[]", "arguments: expected an object" },
                { UNIFIED_READ_FILE, "{}", "missing field: path" },
                { UNIFIED_READ_FILE, "{'path':null}", "missing field: path" },
                { UNIFIED_READ_FILE, "{'path':7}", "path: expected a string" },
                { UNIFIED_READ_FILE, "{'path':''}", "path: empty, too long, or with a NUL byte" },
                { UNIFIED_READ_FILE, "{'path':'a\\u0000'}", "path: empty, too long, or with a NUL byte" },
                { UNIFIED_READ_FILE, "{'path':'x','offset':0}", "offset: expected a whole number from 1" },
                { UNIFIED_READ_FILE, "{'path':'x','limit':-1}", "limit: expected a whole number from 1" },
                { UNIFIED_READ_FILE, "{'path':'x','limit':1.5}", "limit: expected a whole number from 1" },
                { UNIFIED_READ_FILE, "{'path':'x','content':''}", "unknown field: content" },
                { UNIFIED_WRITE_FILE, "{'path':'x'}", "missing field: content" },
                { UNIFIED_WRITE_FILE, "{'path':'x','content':7}", "content: expected a string" },
                { UNIFIED_WRITE_FILE, "{'path':'x','content':'','create_parents':1}",
                  "create_parents: expected a boolean" },
                { UNIFIED_VIEW_IMAGE, "{'path':'x','offset':1}", "unknown field: offset" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct file_args args;
                eq_str(decode(&a, rows[i].tool, rows[i].text, &args), rows[i].error);
        }
}
