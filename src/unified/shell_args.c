/* shell_args: decodes the arguments of the tool shell. */
#include "unified/shell_args.h"

#include "base/limits.h"

#include <errno.h>

#define SHOWN_BYTES 100

struct decoder {
        struct arena *a;
        const struct json_doc *d;
        const struct json *arguments;
        struct err *err;
        int r; /* the first error; later members are not read */
};

static void fail(struct decoder *c, const char *text)
{
        if (c->r == 0)
                c->r = err_set(c->err, 0, -EINVAL, "failed to deserialize parameters: %s", text);
}

static bool is_whole(struct slice number)
{
        return !memchr(number.p, '.', number.n) && !memchr(number.p, 'e', number.n) &&
               !memchr(number.p, 'E', number.n);
}

/* Says what a value is, as errors name it. */
static const char *describe(struct decoder *c, const struct json *v)
{
        struct slice raw = json_raw(c->d, v);
        int n = (int)MIN(raw.n, (size_t)SHOWN_BYTES);
        switch (v->type) {
        case JSON_NUMBER:
                return arena_printf(c->a, is_whole(raw) ? "integer `%.*s`" : "floating point `%.*s`", n,
                                    raw.p);
        case JSON_STRING:
                return arena_printf(c->a, "string \"%.*s\"", n, raw.p);
        case JSON_TRUE:
        case JSON_FALSE:
                return arena_printf(c->a, "boolean `%.*s`", n, raw.p);
        default:
                return json_type_name(v);
        }
}

static void fail_type(struct decoder *c, const char *what, const struct json *v, const char *wanted)
{
        fail(c, arena_printf(c->a, "invalid %s: %s, expected %s", what, describe(c, v), wanted));
}

/* Returns a member; NULL: it is not there, or null where that is allowed. */
static const struct json *find(struct decoder *c, const char *name, bool is_required)
{
        const struct json *v = json_get(c->d, c->arguments, slice_from_str(name));
        if (!v && is_required)
                fail(c, arena_printf(c->a, "missing field `%s`", name));
        if (c->r < 0 || (v && v->type == JSON_NULL && !is_required))
                return NULL;
        return v;
}

static const char *get_text(struct decoder *c, const char *name, bool is_required)
{
        const struct json *v = find(c, name, is_required);
        if (!v)
                return NULL;
        if (v->type != JSON_STRING) {
                fail_type(c, "type", v, "a string");
                return NULL;
        }
        struct slice s = json_string(c->a, c->d, v);
        if (slice_has_nul(s)) {
                fail(c, arena_printf(c->a, "%s: a NUL byte", name));
                return NULL;
        }
        return arena_dup(c->a, s);
}

static void get_count(struct decoder *c, const char *name, uint64_t *ret)
{
        const struct json *v = find(c, name, false);
        if (!v || (v->type == JSON_NUMBER && json_u64(c->d, v, ret) == 0))
                return;
        bool is_value = v->type == JSON_NUMBER && is_whole(json_raw(c->d, v));
        fail_type(c, is_value ? "value" : "type", v, "u64");
}

static void get_bool(struct decoder *c, const char *name, bool *ret)
{
        const struct json *v = find(c, name, false);
        if (v && v->type != JSON_TRUE && v->type != JSON_FALSE)
                fail_type(c, "type", v, "a boolean");
        else if (v)
                *ret = v->type == JSON_TRUE;
}

int shell_args_decode(struct arena *a, const struct json_doc *d, const struct json *arguments,
                      struct shell_args *ret, struct err *err)
{
        struct decoder c = { .a = a, .d = d, .arguments = arguments, .err = err };
        struct shell_args args = { .timeout_ms = SHELL_TIMEOUT_MS, .login = true };
        args.command = get_text(&c, "command", true);
        args.workdir = get_text(&c, "workdir", true);
        get_count(&c, "timeout_ms", &args.timeout_ms);
        get_bool(&c, "login", &args.login);
        args.environment_id = get_text(&c, "environment_id", false);
        if (c.r == 0 && strlen(args.workdir) > LIMIT_UNIFIED_PATH_BYTES)
                fail(&c, arena_printf(a, "workdir: longer than %d bytes", LIMIT_UNIFIED_PATH_BYTES));
        if (c.r == 0)
                *ret = args;
        return c.r;
}
