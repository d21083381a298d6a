/* file_args: decodes the arguments of the tools for files, by a table of their members. */
#include "unified/file_args.h"

#include "base/limits.h"

#include <errno.h>
#include <stddef.h>

enum kind { TEXT, BYTES, COUNT, BOOL };

struct field {
        const char *name;
        enum kind kind;
        size_t place;   /* the offset of the member in struct file_args */
        unsigned tools; /* a bit for each tool that has the argument */
        bool is_required;
};

#define BIT(tool) (1U << (tool))
#define ALL                                                                               \
        (BIT(UNIFIED_READ_FILE) | BIT(UNIFIED_WRITE_FILE) | BIT(UNIFIED_LIST_DIRECTORY) | \
         BIT(UNIFIED_VIEW_IMAGE))
#define AT(member) offsetof(struct file_args, member)

static const struct field fields[] = {
        { "path", TEXT, AT(path), ALL, true },
        { "environment_id", TEXT, AT(environment_id), ALL, false },
        { "offset", COUNT, AT(offset), BIT(UNIFIED_READ_FILE), false },
        { "limit", COUNT, AT(limit), BIT(UNIFIED_READ_FILE), false },
        { "content", BYTES, AT(content), BIT(UNIFIED_WRITE_FILE), true },
        { "create_parents", BOOL, AT(create_parents), BIT(UNIFIED_WRITE_FILE), false },
        { "after", TEXT, AT(after), BIT(UNIFIED_LIST_DIRECTORY), false },
};

static int refuse(struct err *err, const char *name, const char *what)
{
        return err_set(err, 0, -EINVAL, "failed to parse function arguments: %s: %.100s", name, what);
}

static int read_text(struct arena *a, const struct json_doc *d, const struct field *f, const struct json *v,
                     const char **ret, struct err *err)
{
        struct slice s = v->type == JSON_STRING ? json_string(a, d, v) : S("");
        if (v->type != JSON_STRING)
                return refuse(err, f->name, "expected a string");
        if (s.n == 0 || s.n > LIMIT_UNIFIED_PATH_BYTES || slice_has_nul(s))
                return refuse(err, f->name, "empty, too long, or with a NUL byte");
        *ret = arena_dup(a, s);
        return 0;
}

static int read_field(struct arena *a, const struct json_doc *d, const struct field *f, const struct json *v,
                      struct file_args *ret, struct err *err)
{
        void *place = (char *)ret + f->place;
        switch (f->kind) {
        case TEXT:
                return read_text(a, d, f, v, place, err);
        case BYTES:
                if (v->type != JSON_STRING)
                        return refuse(err, f->name, "expected a string");
                *(struct slice *)place = json_string(a, d, v);
                return 0;
        case COUNT:
                if (v->type != JSON_NUMBER || json_u64(d, v, place) < 0 || *(uint64_t *)place == 0)
                        return refuse(err, f->name, "expected a whole number from 1");
                return 0;
        case BOOL:
                if (v->type != JSON_TRUE && v->type != JSON_FALSE)
                        return refuse(err, f->name, "expected a boolean");
                *(bool *)place = v->type == JSON_TRUE;
                return 0;
        }
        return 0;
}

static const struct field *find(struct slice name, enum unified_tool tool)
{
        for (const struct field *f = fields; f < fields + ARRAY_LEN(fields); f++)
                if ((f->tools & BIT(tool)) && slice_eq(name, slice_from_str(f->name)))
                        return f;
        return NULL;
}

int file_args_decode(struct arena *a, const struct json_doc *d, enum unified_tool tool,
                     const struct json *arguments, struct file_args *ret, struct err *err)
{
        struct file_args args = { .offset = 1, .limit = FILE_LINES };
        if (!arguments || arguments->type != JSON_OBJECT)
                return refuse(err, "arguments", "expected an object");
        json_each (key, d, arguments) {
                const char *name = arena_dup(a, json_string(a, d, key));
                const struct field *f = find(slice_from_str(name), tool);
                if (!f)
                        return refuse(err, "unknown field", name);
                int r = key[1].type == JSON_NULL ? 0 : read_field(a, d, f, key + 1, &args, err);
                if (r < 0)
                        return r;
        }
        if (!args.path || (tool == UNIFIED_WRITE_FILE && !args.content.p))
                return refuse(err, "missing field", args.path ? "content" : "path");
        *ret = args;
        return 0;
}
