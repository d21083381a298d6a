/* environments_toml: reads the text of a file environments.toml in two steps. The first step checks keys and types; its errors have
 * a line and a column. The second step checks the rules between the keys; its errors have the same texts as in other clients that
 * read the file. */
#include "env/environments_toml.h"

#include "base/limits.h"
#include "base/printable.h"
#include "base/toml.h"
#include "base/url_text.h"
#include "env/environment_url.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define SECONDS_MAX 315360000                         /* ten years, so that sums of times cannot overflow */
#define REFUSAL_BYTES (4 * PRINTABLE_BYTES_MAX + 128) /* room for a key and a sentence */

struct reader {
        struct arena *a;
        const char *path; /* may be NULL */
        struct err *err;
};

/* The values of one table [[environments]]; NULL: the table has no such key. */
struct entry {
        const struct toml *id, *url, *program, *args, *env, *cwd, *connect_timeout_sec,
                *initialize_timeout_sec, *token_file, *token_env;
};

struct file {
        const struct toml *default_id, *include_local, *environments;
};

enum value_type { VALUE_STRING, VALUE_BOOL, VALUE_STRINGS, VALUE_VARIABLES, VALUE_SECONDS, VALUE_TABLES };

struct key {
        const char *name;
        enum value_type type;
        size_t offset; /* offset of the member of struct entry or struct file that gets the value */
};

static const struct key entry_keys[] = {
        { "id", VALUE_STRING, offsetof(struct entry, id) },
        { "url", VALUE_STRING, offsetof(struct entry, url) },
        { "program", VALUE_STRING, offsetof(struct entry, program) },
        { "args", VALUE_STRINGS, offsetof(struct entry, args) },
        { "env", VALUE_VARIABLES, offsetof(struct entry, env) },
        { "cwd", VALUE_STRING, offsetof(struct entry, cwd) },
        { "connect_timeout_sec", VALUE_SECONDS, offsetof(struct entry, connect_timeout_sec) },
        { "initialize_timeout_sec", VALUE_SECONDS, offsetof(struct entry, initialize_timeout_sec) },
        { "token_file", VALUE_STRING, offsetof(struct entry, token_file) },
        { "token_env", VALUE_STRING, offsetof(struct entry, token_env) },
        { .name = NULL },
};

static const struct key file_keys[] = {
        { "default", VALUE_STRING, offsetof(struct file, default_id) },
        { "include_local", VALUE_BOOL, offsetof(struct file, include_local) },
        { "environments", VALUE_TABLES, offsetof(struct file, environments) },
        { .name = NULL },
};

/* ---- errors ---- */

static int parse_failed(struct reader *r)
{
        return r->path ? err_wrap(r->err, "failed to parse environment config `%s`",
                                  printable_str(r->a, r->path))
                       : err_wrap(r->err, "failed to parse environment config");
}

PRINTF_LIKE(3, 4) static int refuse_at(struct reader *r, const struct toml *t, const char *fmt, ...)
{
        char text[REFUSAL_BYTES];
        va_list ap;

        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void)err_set(r->err, 0, -EINVAL, "line %u, column %u: %s", t->line, t->column, text);
        return parse_failed(r);
}

/* Puts the path of the file in front of an error of the second step. */
static int rule_broken(struct reader *r)
{
        return r->path ? err_wrap(r->err, "%s", printable_str(r->a, r->path)) : r->err->code;
}

static int refuse_entry(struct reader *r, const struct entry *e, const char *what)
{
        (void)err_set(r->err, 0, -EINVAL, "environment `%s` %s", printable_text(r->a, e->id->string), what);
        return rule_broken(r);
}

static int refuse_id(struct reader *r, struct slice id, const char *what)
{
        (void)err_set(r->err, 0, -EINVAL, "environment id `%s` %s", printable_text(r->a, id), what);
        return rule_broken(r);
}

/* ---- the first step: keys and types ---- */

static bool are_all(const struct toml *t, enum toml_type type)
{
        for (const struct toml *m = t->first; m; m = m->next)
                if (m->type != type)
                        return false;
        return true;
}

/* Converts a number of seconds to milliseconds, which are at least 1 for a time above 0. Returns false when the value is no such
 * number. */
static bool seconds_to_ms(const struct toml *t, uint64_t *ret)
{
        double seconds = t->type == TOML_INTEGER ? (double)t->integer : t->real;

        if ((t->type != TOML_INTEGER && t->type != TOML_FLOAT) || !(seconds >= 0 && seconds <= SECONDS_MAX))
                return false;
        uint64_t ms = (uint64_t)(seconds * 1000 + 0.5);
        *ret = ms == 0 && seconds > 0 ? 1 : ms;
        return true;
}

/* Returns the text for "must be …" when the value has not the type, else NULL. */
static const char *type_wanted(enum value_type type, const struct toml *t)
{
        uint64_t ms;

        switch (type) {
        case VALUE_STRING:
                return t->type == TOML_STRING ? NULL : "a string";
        case VALUE_BOOL:
                return t->type == TOML_BOOL ? NULL : "true or false";
        case VALUE_STRINGS:
                return t->type == TOML_ARRAY && are_all(t, TOML_STRING) ? NULL : "an array of strings";
        case VALUE_VARIABLES:
                return t->type == TOML_TABLE && are_all(t, TOML_STRING) ? NULL : "a table of strings";
        case VALUE_SECONDS:
                return seconds_to_ms(t, &ms) ? NULL : "a number of seconds from 0 to 315360000";
        case VALUE_TABLES:
                return t->type == TOML_ARRAY && are_all(t, TOML_TABLE) ? NULL : "an array of tables";
        }
        return "something else";
}

/* Stores each member of the table in the member of *ret that `keys` names. */
static int members_collect(struct reader *r, const struct toml *table, const struct key *keys, void *ret)
{
        for (const struct toml *t = table->first; t; t = t->next) {
                const struct key *key = keys;
                while (key->name && !slice_eq(slice_from_str(key->name), t->key))
                        key++;
                if (!key->name)
                        return refuse_at(r, t, "unknown %s `%s`", t->type == TOML_TABLE ? "table" : "key",
                                         printable_text(r->a, t->key));
                const char *wanted = type_wanted(key->type, t);
                if (wanted)
                        return refuse_at(r, t, "`%s` must be %s", key->name, wanted);
                *(const struct toml **)((char *)ret + key->offset) = t;
        }
        return 0;
}

static int variables_check(struct reader *r, const struct toml *env)
{
        for (const struct toml *t = env ? env->first : NULL; t; t = t->next)
                if (t->key.n == 0 || memchr(t->key.p, '=', t->key.n) || slice_has_nul(t->key))
                        return refuse_at(r, t, "`%s` is not the name of a variable",
                                         printable_text(r->a, t->key));
        return 0;
}

static int entries_collect(struct reader *r, const struct toml *array, struct entry **ret, size_t *ret_count)
{
        size_t count = 0, i = 0;

        for (const struct toml *t = array ? array->first : NULL; t; t = t->next)
                if (++count > LIMIT_ENVIRONMENTS)
                        return refuse_at(r, t, "more than %d environments", LIMIT_ENVIRONMENTS);
        struct entry *list = arena_zalloc(r->a, (count + 1) * sizeof(*list));
        for (const struct toml *t = count > 0 ? array->first : NULL; t; t = t->next, i++) {
                int result = members_collect(r, t, entry_keys, &list[i]);
                if (result == 0)
                        result = variables_check(r, list[i].env);
                if (result < 0)
                        return result;
                if (!list[i].id)
                        return refuse_at(r, t, "missing key `id`");
        }
        *ret = list;
        *ret_count = count;
        return 0;
}

/* ---- the second step: the rules ---- */

static int id_check(struct reader *r, struct slice id)
{
        if (slice_trim(id).n == 0) {
                (void)err_set(r->err, 0, -EINVAL, "environment id cannot be empty");
                return rule_broken(r);
        }
        if (slice_trim(id).n != id.n)
                return refuse_id(r, id, "must not contain surrounding whitespace");
        if (slice_eq(id, S(ENVIRONMENT_LOCAL_ID)) || slice_eq_nocase(id, S("none")))
                return refuse_id(r, id, "is reserved");
        if (id.n > ENVIRONMENT_ID_MAX)
                return refuse_id(r, id, "cannot be longer than 64 characters");
        for (size_t i = 0; i < id.n; i++)
                if (!url_is_alpha(id.p[i]) && !url_is_digit(id.p[i]) && id.p[i] != '-' && id.p[i] != '_')
                        return refuse_id(r, id, "must contain only ASCII letters, numbers, '-' or '_'");
        return 0;
}

static bool is_variable_name(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!url_is_alpha(s.p[i]) && s.p[i] != '_' && (i == 0 || !url_is_digit(s.p[i])))
                        return false;
        return s.n > 0;
}

/* Checks that the keys of one entry may stand together. */
static int entry_check(struct reader *r, const struct entry *e)
{
        int result = id_check(r, e->id->string);
        if (result < 0)
                return result;
        if (!e->program && (e->args || e->env || e->cwd))
                return refuse_entry(r, e, "args, env, and cwd require program");
        if (!e->url && e->connect_timeout_sec)
                return refuse_entry(r, e, "connect_timeout_sec requires url");
        if (!e->url == !e->program)
                return refuse_entry(r, e, "must set exactly one of url or program");
        if (!e->url && (e->token_file || e->token_env))
                return refuse_entry(r, e, "token_file and token_env require url");
        if (e->token_file && e->token_env)
                return refuse_entry(r, e, "must set at most one of token_file or token_env");
        if (e->token_file && e->token_file->string.n == 0)
                return refuse_entry(r, e, "token_file cannot be empty");
        if (e->token_env && !is_variable_name(e->token_env->string))
                return refuse_entry(r, e, "token_env must be the name of a variable");
        if (e->program && slice_trim(e->program->string).n == 0)
                return refuse_entry(r, e, "program cannot be empty");
        return 0;
}

/* Makes a path absolute: a relative path begins at the directory of the file. Returns false when there is no file and the path is
 * relative. */
static bool path_resolve(struct reader *r, const struct toml *t, const char **ret)
{
        if (!t)
                return true;
        const char *slash = r->path ? strrchr(r->path, '/') : NULL;
        if (slice_starts(t->string, S("/")))
                *ret = arena_dup(r->a, t->string);
        else if (r->path)
                *ret = arena_printf(r->a, "%.*s%.*s", slash ? (int)(slash - r->path) + 1 : 0, r->path,
                                    SLICE(t->string));
        else
                return false;
        return true;
}

static const char *const *argv_make(struct reader *r, const struct entry *e)
{
        size_t count = 1, i = 0;

        for (const struct toml *t = e->args ? e->args->first : NULL; t; t = t->next)
                count++;
        const char **argv = arena_zalloc(r->a, (count + 1) * sizeof(*argv));
        argv[i++] = arena_dup(r->a, slice_trim(e->program->string));
        for (const struct toml *t = e->args ? e->args->first : NULL; t; t = t->next)
                argv[i++] = arena_dup(r->a, t->string);
        return argv;
}

static void variables_make(struct reader *r, const struct toml *env, struct environment *ret)
{
        size_t count = 0, i = 0;

        for (const struct toml *t = env ? env->first : NULL; t; t = t->next)
                count++;
        if (count == 0)
                return;
        struct environment_variable *list = arena_zalloc(r->a, count * sizeof(*list));
        for (const struct toml *t = env->first; t; t = t->next)
                list[i++] =
                        (struct environment_variable){ arena_dup(r->a, t->key), arena_dup(r->a, t->string) };
        ret->env = list;
        ret->env_count = count;
}

static int environment_make(struct reader *r, const struct entry *e, struct environment *ret)
{
        int result = entry_check(r, e);
        if (result < 0)
                return result;
        struct environment made = { .initialize_timeout_ms = ENVIRONMENT_TIMEOUT_MS };
        if (e->url && environment_url_check(r->a, e->url->string, &made.url, &made.kind, r->err) < 0)
                return rule_broken(r);
        if (!path_resolve(r, e->cwd, &made.cwd))
                return refuse_entry(r, e, "cwd must be absolute");
        if (!path_resolve(r, e->token_file, &made.token_file))
                return refuse_entry(r, e, "token_file must be absolute");
        if (e->url)
                made.connect_timeout_ms =
                        made.kind == ENVIRONMENT_SSH ? ENVIRONMENT_SSH_TIMEOUT_MS : ENVIRONMENT_TIMEOUT_MS;
        if (e->connect_timeout_sec)
                (void)seconds_to_ms(e->connect_timeout_sec, &made.connect_timeout_ms);
        if (e->initialize_timeout_sec)
                (void)seconds_to_ms(e->initialize_timeout_sec, &made.initialize_timeout_ms);
        made.id = arena_dup(r->a, e->id->string);
        made.token_env = e->token_env ? arena_dup(r->a, e->token_env->string) : NULL;
        if (e->program) {
                made.kind = ENVIRONMENT_COMMAND;
                made.argv = argv_make(r, e);
                variables_make(r, e->env, &made);
        }
        *ret = made;
        return 0;
}

static int default_find(struct reader *r, const struct toml *t, bool has_local, struct environments *e)
{
        e->default_index = has_local ? 0 : ENVIRONMENTS_NONE;
        if (!t)
                return 0;
        struct slice id = slice_trim(t->string);
        if (id.n == 0) {
                (void)err_set(r->err, 0, -EINVAL, "default environment id cannot be empty");
                return rule_broken(r);
        }
        e->default_index = ENVIRONMENTS_NONE;
        if (slice_eq_nocase(id, S("none")))
                return 0;
        const struct environment *found = environments_find(e, id);
        if (!found) {
                (void)err_set(r->err, 0, -EINVAL, "default environment `%s` is not configured",
                              printable_text(r->a, id));
                return rule_broken(r);
        }
        e->default_index = (size_t)(found - e->list);
        return 0;
}

static int environments_make(struct reader *r, const struct file *f, struct environments *ret)
{
        bool has_local = !f->include_local || f->include_local->boolean;
        struct entry *entries = NULL;
        size_t count = 0;

        int result = entries_collect(r, f->environments, &entries, &count);
        if (result < 0)
                return result;
        struct environment *list = arena_zalloc(r->a, (count + 1) * sizeof(*list));
        struct environments made = { .list = list,
                                     .source = r->path ? arena_dup(r->a, slice_from_str(r->path)) : NULL };
        if (has_local)
                list[made.count++] = environment_local;
        for (size_t i = 0; i < count; i++) {
                result = environment_make(r, &entries[i], &list[made.count]);
                if (result < 0)
                        return result;
                if (environments_find(&made, entries[i].id->string))
                        return refuse_id(r, entries[i].id->string, "is duplicated");
                made.count++;
        }
        result = default_find(r, f->default_id, has_local, &made);
        if (result == 0)
                *ret = made;
        return result;
}

int environments_parse(struct arena *a, struct slice text, const char *path, struct environments *ret,
                       struct err *err)
{
        struct reader r = { a, path, err };
        struct file file = { 0 };

        if (text.n > LIMIT_ENVIRONMENTS_BYTES) {
                (void)err_set(err, 0, -EFBIG, "it has more than %d bytes", LIMIT_ENVIRONMENTS_BYTES);
                return parse_failed(&r);
        }
        const struct toml *root = toml_parse(a, text, err);
        if (!root)
                return parse_failed(&r);
        int result = members_collect(&r, root, file_keys, &file);
        return result < 0 ? result : environments_make(&r, &file, ret);
}
