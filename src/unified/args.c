/* args: decodes the arguments of the tools. */
#include "unified/args.h"

#include "base/limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one value ---- */

struct decoder {
        struct arena *a;
        const struct json_doc *d;
        struct err *err;
};

/* Sets an error about the form of the arguments. Such errors begin with these words, which agents know. */
static int refuse(struct decoder *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
static int refuse(struct decoder *c, const char *fmt, ...)
{
        char text[512];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        return err_set(c->err, 0, -EINVAL, "failed to parse function arguments: %s", text);
}

static int refuse_type(struct decoder *c, const char *name, const struct json *v, const char *wanted)
{
        return refuse(c, "%s: invalid type: %s, expected %s", name, json_type_name(v), wanted);
}

/* Reads a text that becomes a C string. */
static int get_text(struct decoder *c, const char *name, const struct json *v, const char **ret)
{
        if (v->type != JSON_STRING)
                return refuse_type(c, name, v, "a string");
        struct slice s = json_string(c->a, c->d, v);
        if (slice_has_nul(s))
                return refuse(c, "%s: a NUL byte", name);
        *ret = arena_dup(c->a, s);
        return 0;
}

static int get_path(struct decoder *c, const char *name, const struct json *v, const char **ret)
{
        const char *path;
        int r = get_text(c, name, v, &path);
        if (r == 0 && strlen(path) > LIMIT_UNIFIED_PATH_BYTES)
                return refuse(c, "%s: longer than %d bytes", name, LIMIT_UNIFIED_PATH_BYTES);
        if (r == 0)
                *ret = path;
        return r;
}

static int get_bytes(struct decoder *c, const char *name, const struct json *v, struct slice *ret)
{
        if (v->type != JSON_STRING)
                return refuse_type(c, name, v, "a string");
        *ret = json_string(c->a, c->d, v);
        return 0;
}

static int get_bool(struct decoder *c, const char *name, const struct json *v, bool *ret)
{
        if (v->type != JSON_TRUE && v->type != JSON_FALSE)
                return refuse_type(c, name, v, "a boolean");
        *ret = v->type == JSON_TRUE;
        return 0;
}

/* Reads a number that is not negative. A number that does not fit becomes UINT64_MAX. */
static int get_number(struct decoder *c, const char *name, const struct json *v, uint64_t *ret)
{
        if (v->type != JSON_NUMBER)
                return refuse_type(c, name, v, "a number");
        if (json_u64(c->d, v, ret) == 0)
                return 0;
        double value = strtod(arena_dup(c->a, json_raw(c->d, v)), NULL);
        if (value < 0)
                return refuse(c, "%s: a negative number", name);
        *ret = value >= 18446744073709549568.0 ? UINT64_MAX : (uint64_t)value;
        return 0;
}

static int get_wish(struct decoder *c, const char *name, const struct json *v, enum approval_wish *ret)
{
        const char *text;
        int r = get_text(c, name, v, &text);
        if (r < 0 || approval_wish_find(text, ret))
                return r;
        return refuse(c,
                      "unknown variant `%.100s`, expected one of `use_default`, "
                      "`with_additional_permissions`, `require_escalated`",
                      text);
}

/* Takes an object as JSON text. Its members are read by the code that applies the object. */
static int get_object(struct decoder *c, const char *name, const struct json *v, const char **ret)
{
        if (v->type != JSON_OBJECT)
                return refuse_type(c, name, v, "a map");
        *ret = arena_dup(c->a, json_raw(c->d, v));
        return 0;
}

static int check_texts(struct decoder *c, const char *name, const struct json *v)
{
        if (v->type != JSON_ARRAY)
                return refuse_type(c, name, v, "a sequence");
        json_each (item, c->d, v)
                if (item->type != JSON_STRING)
                        return refuse_type(c, name, item, "a string");
        return 0;
}

/* ---- objects ---- */

/* Reads one member. Returns 1 when the tool has no member of that name. */
typedef int (*get_member)(struct decoder *c, const char *name, const struct json *v, void *args);

static int decode(struct decoder *c, const struct json *object, get_member get, const char *names, void *args)
{
        if (!object || object->type != JSON_OBJECT)
                return refuse(c, "invalid type: %s, expected a map",
                              object ? json_type_name(object) : "null");
        json_each (key, c->d, object) {
                const char *name = arena_dup(c->a, json_string(c->a, c->d, key));
                /* null is the same as no member, as most writers of JSON mean it. */
                int r = get(c, name, key + 1, args);
                if (r == 1)
                        return refuse(c, "unknown field `%.100s`, expected one of %s", name, names);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool is(const char *name, const char *other)
{
        return strcmp(name, other) == 0;
}

static const char *or_null(const char *text)
{
        return text && text[0] ? text : NULL;
}

static int check_wish(struct decoder *c, enum approval_wish wish, const char *additional)
{
        if (wish == APPROVAL_WITH_ADDITIONAL && !additional)
                return err_set(c->err, 0, -EINVAL,
                               "missing `additional_permissions`; `sandbox_permissions` is "
                               "`with_additional_permissions`");
        if (wish != APPROVAL_WITH_ADDITIONAL && additional)
                return err_set(c->err, 0, -EINVAL,
                               "`additional_permissions` requires `sandbox_permissions` set to "
                               "`with_additional_permissions`");
        return 0;
}

/* ---- the tools ---- */

static const char *const tool_names[] = {
        [UNIFIED_EXEC_COMMAND] = "exec_command",     [UNIFIED_WRITE_STDIN] = "write_stdin",
        [UNIFIED_APPLY_PATCH] = "apply_patch",       [UNIFIED_SHELL] = "shell",
        [UNIFIED_READ_FILE] = "read_file",           [UNIFIED_WRITE_FILE] = "write_file",
        [UNIFIED_LIST_DIRECTORY] = "list_directory", [UNIFIED_VIEW_IMAGE] = "view_image",
};

const char *unified_tool_name(enum unified_tool tool)
{
        return tool_names[tool];
}

bool unified_tool_find(struct slice name, enum unified_tool *ret)
{
        size_t which = slice_find(name, tool_names, ARRAY_LEN(tool_names));
        if (which == ARRAY_LEN(tool_names))
                return false;
        *ret = (enum unified_tool)which;
        return true;
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
        return MAX(least, MIN(value, most));
}

struct exec_decoding {
        struct exec_args *args;
        uint64_t yield_ms;
};

static int get_exec(struct decoder *c, const char *name, const struct json *v, void *arg)
{
        struct exec_decoding *e = arg;
        struct exec_args *args = e->args;
        bool is_null = v->type == JSON_NULL;
        if (is(name, "cmd"))
                return get_text(c, name, v, &args->cmd);
        if (is(name, "workdir"))
                return is_null ? 0 : get_path(c, name, v, &args->workdir);
        if (is(name, "tty"))
                return is_null ? 0 : get_bool(c, name, v, &args->tty);
        if (is(name, "yield_time_ms"))
                return is_null ? 0 : get_number(c, name, v, &e->yield_ms);
        if (is(name, "max_output_tokens"))
                return is_null ? 0 : get_number(c, name, v, &args->max_output_tokens);
        if (is(name, "shell"))
                return is_null ? 0 : get_path(c, name, v, &args->shell);
        if (is(name, "environment_id"))
                return is_null ? 0 : get_text(c, name, v, &args->environment_id);
        if (is(name, "sandbox_permissions"))
                return is_null ? 0 : get_wish(c, name, v, &args->wish);
        if (is(name, "justification"))
                return is_null ? 0 : get_text(c, name, v, &args->justification);
        if (is(name, "additional_permissions"))
                return is_null ? 0 : get_object(c, name, v, &args->additional_permissions);
        if (is(name, "prefix_rule"))
                return is_null ? 0 : check_texts(c, name, v);
        if (!is(name, "login"))
                return 1;
        args->has_login = !is_null;
        return is_null ? 0 : get_bool(c, name, v, &args->login);
}

int args_decode_exec(struct arena *a, const struct json_doc *d, const struct json *arguments,
                     struct exec_args *ret, struct err *err)
{
        struct decoder c = { .a = a, .d = d, .err = err };
        struct exec_args args = { .max_output_tokens = OUTPUT_TOKENS };
        struct exec_decoding e = { .args = &args, .yield_ms = EXEC_YIELD_MS };
        int r = decode(&c, arguments, get_exec,
                       "`cmd`, `workdir`, `tty`, `yield_time_ms`, `max_output_tokens`, `shell`, `login`, "
                       "`environment_id`, `sandbox_permissions`, `justification`, `prefix_rule`, "
                       "`additional_permissions`",
                       &e);
        if (r == 0 && !args.cmd)
                r = refuse(&c, "missing field `cmd`");
        if (r == 0)
                r = check_wish(&c, args.wish, args.additional_permissions);
        if (r < 0)
                return r;
        args.yield_ms = clamp(e.yield_ms, YIELD_LEAST_MS, YIELD_MOST_MS);
        args.workdir = or_null(args.workdir);
        args.shell = or_null(args.shell);
        *ret = args;
        return 0;
}

struct write_decoding {
        struct write_args *args;
        bool has_id;
        uint64_t yield_ms;
};

static int get_write(struct decoder *c, const char *name, const struct json *v, void *arg)
{
        struct write_decoding *w = arg;
        bool is_null = v->type == JSON_NULL;
        if (is(name, "chars"))
                return is_null ? 0 : get_bytes(c, name, v, &w->args->chars);
        if (is(name, "yield_time_ms"))
                return is_null ? 0 : get_number(c, name, v, &w->yield_ms);
        if (is(name, "max_output_tokens"))
                return is_null ? 0 : get_number(c, name, v, &w->args->max_output_tokens);
        if (!is(name, "session_id"))
                return 1;
        w->has_id = v->type == JSON_NUMBER && json_i64(c->d, v, &w->args->session_id) == 0;
        return w->has_id ? 0 : refuse_type(c, name, v, "an integer");
}

int args_decode_write(struct arena *a, const struct json_doc *d, const struct json *arguments,
                      uint64_t poll_most_ms, struct write_args *ret, struct err *err)
{
        struct decoder c = { .a = a, .d = d, .err = err };
        struct write_args args = { .chars = S(""), .max_output_tokens = OUTPUT_TOKENS };
        struct write_decoding w = { .args = &args, .yield_ms = WRITE_YIELD_MS };
        int r = decode(&c, arguments, get_write,
                       "`session_id`, `chars`, `yield_time_ms`, `max_output_tokens`", &w);
        if (r == 0 && !w.has_id)
                r = refuse(&c, "missing field `session_id`");
        if (r < 0)
                return r;
        args.yield_ms = args.chars.n > 0 ? clamp(w.yield_ms, YIELD_LEAST_MS, YIELD_MOST_MS)
                                         : clamp(w.yield_ms, POLL_LEAST_MS,
                                                 MAX(poll_most_ms, (uint64_t)POLL_LEAST_MS));
        *ret = args;
        return 0;
}

static int get_patch(struct decoder *c, const char *name, const struct json *v, void *arg)
{
        struct patch_args *args = arg;
        bool is_null = v->type == JSON_NULL;
        if (is(name, "input"))
                return get_bytes(c, name, v, &args->input);
        if (is(name, "workdir"))
                return is_null ? 0 : get_path(c, name, v, &args->workdir);
        if (is(name, "environment_id"))
                return is_null ? 0 : get_text(c, name, v, &args->environment_id);
        if (is(name, "sandbox_permissions"))
                return is_null ? 0 : get_wish(c, name, v, &args->wish);
        if (is(name, "justification"))
                return is_null ? 0 : get_text(c, name, v, &args->justification);
        if (is(name, "additional_permissions"))
                return is_null ? 0 : get_object(c, name, v, &args->additional_permissions);
        return 1;
}

int args_decode_patch(struct arena *a, const struct json_doc *d, const struct json *arguments,
                      struct patch_args *ret, struct err *err)
{
        struct decoder c = { .a = a, .d = d, .err = err };
        struct patch_args args = { 0 };
        int r = decode(&c, arguments, get_patch,
                       "`input`, `workdir`, `environment_id`, `sandbox_permissions`, `justification`, "
                       "`additional_permissions`",
                       &args);
        if (r == 0 && !args.input.p)
                r = refuse(&c, "missing field `input`");
        if (r == 0)
                r = check_wish(&c, args.wish, args.additional_permissions);
        if (r < 0)
                return r;
        args.workdir = or_null(args.workdir);
        *ret = args;
        return 0;
}
