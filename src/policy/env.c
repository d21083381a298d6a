/* env: builds the environment of a child from a policy, the server's environment and the request.
 *
 * Variables keep the order of their first appearance. A map from names to positions keeps the cost linear for ten
 * thousand variables. A dropped variable leaves a hole, which the last step skips.
 */
#include "policy/env.h"

#include "base/glob.h"
#include "base/map.h"
#include "base/mem.h"

struct builder {
        struct env_var *vars; /* name.p == NULL: dropped */
        size_t count, capacity;
        struct map by_name;
};

static const struct slice core_names[] = {
        S("PATH"), S("SHELL"),  S("TMPDIR"),   S("TEMP"),    S("TMP"),  S("HOME"),
        S("LANG"), S("LC_ALL"), S("LC_CTYPE"), S("LOGNAME"), S("USER"),
};

static const struct slice default_excludes[] = { S("*KEY*"), S("*SECRET*"), S("*TOKEN*") };

/* Credentials of the server, and one option that only the server reads. */
static const struct slice server_names[] = {
        S("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN"),
        S("NODE_REPL_AUTH_TOKEN"),
        S("OPENAI_FEDERATION_RULE_ID"),
        S("OPENAI_IDENTITY_TOKEN_FILE"),
        S("OPENAI_WORKLOAD_IDENTITY_CONTEXT"),
        S("CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"),
        S("FARHAND_TOKEN"),
};

static bool is_listed(struct slice name, const struct slice *list, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (slice_eq_nocase(name, list[i]))
                        return true;
        }
        return false;
}

bool env_is_server_name(struct slice name)
{
        return is_listed(name, server_names, ARRAY_LEN(server_names));
}

static bool is_matched(struct slice name, const struct slice *patterns, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (glob_match_name(patterns[i], name))
                        return true;
        }
        return false;
}

static bool is_excluded(const struct env_policy *policy, struct slice name)
{
        return (!policy->ignores_default_excludes &&
                is_matched(name, default_excludes, ARRAY_LEN(default_excludes))) ||
               is_matched(name, policy->exclude, policy->exclude_count);
}

static void put(struct builder *b, struct env_var var)
{
        struct env_var *old = map_find(&b->by_name, var.name);

        if (old) {
                old->value = var.value;
                return;
        }
        must(b->count < b->capacity);
        b->vars[b->count] = var;
        map_put(&b->by_name, var.name, &b->vars[b->count++]);
}

static void drop(struct builder *b, struct env_var *var)
{
        (void)map_remove(&b->by_name, var->name);
        var->name = (struct slice){ 0 };
}

/* Returns the name as the child will read it: up to the first '=' that is not the first character. A key of the request may
 * hold a '='. */
static struct slice seen_name(struct slice entry)
{
        const char *equals = entry.n > 1 ? memchr(entry.p + 1, '=', entry.n - 1) : NULL;

        return equals ? slice_from(entry.p, (size_t)(equals - entry.p)) : entry;
}

static void put_inherited(struct builder *b, const struct env_policy *policy, struct slice entry)
{
        struct slice name = seen_name(entry);

        if (name.n == entry.n) /* no '=': not a variable */
                return;
        if (policy->inherit == ENV_INHERIT_CORE && !is_listed(name, core_names, ARRAY_LEN(core_names)))
                return;
        if (is_excluded(policy, name))
                return;
        put(b, (struct env_var){ name, slice_from(entry.p + name.n + 1, entry.n - name.n - 1) });
}

static void apply_policy(struct builder *b, const struct env_policy *policy, const char *const *inherited)
{
        if (policy->inherit != ENV_INHERIT_NONE) {
                for (size_t i = 0; inherited[i]; i++)
                        put_inherited(b, policy, slice_from_str(inherited[i]));
        }
        for (size_t i = 0; i < policy->set_count; i++)
                put(b, policy->set[i]);
        for (size_t i = 0; policy->include_only_count > 0 && i < b->count; i++) {
                if (!is_matched(b->vars[i].name, policy->include_only, policy->include_only_count))
                        drop(b, &b->vars[i]);
        }
}

static char *join(struct arena *a, const struct env_var *var)
{
        char *entry = arena_alloc(a, var->name.n + 1 + var->value.n + 1);

        memcpy(entry, var->name.p, var->name.n);
        entry[var->name.n] = '=';
        if (var->value.n > 0)
                memcpy(entry + var->name.n + 1, var->value.p, var->value.n);
        entry[var->name.n + 1 + var->value.n] = '\0';
        return entry;
}

static const char **finish(struct arena *a, struct builder *b)
{
        const char **list = arena_alloc(a, (b->count + 1) * sizeof(*list));
        size_t n = 0;

        for (size_t i = 0; i < b->count; i++) {
                if (b->vars[i].name.p)
                        list[n++] = join(a, &b->vars[i]);
        }
        list[n] = NULL;
        return list;
}

const char **env_build(struct arena *a, const struct env_policy *policy, const char *const *inherited,
                       const struct env_var *request, size_t request_count, const char *default_shell)
{
        size_t capacity = request_count + (policy ? policy->set_count : 0) + 1;
        for (size_t i = 0; policy && inherited[i]; i++)
                capacity++;
        struct builder b = {
                .vars = arena_alloc(a, capacity * sizeof(*b.vars)),
                .capacity = capacity,
        };
        map_init(&b.by_name);

        if (policy)
                apply_policy(&b, policy, inherited);
        for (size_t i = 0; i < request_count; i++)
                put(&b, request[i]);
        for (size_t i = 0; i < b.count; i++) {
                struct env_var *var = &b.vars[i];
                if (var->name.p && env_is_server_name(seen_name(var->name)))
                        drop(&b, var);
        }
        if (default_shell && !map_find(&b.by_name, S("SHELL")))
                put(&b, (struct env_var){ S("SHELL"), slice_from_str(default_shell) });

        const char **list = finish(a, &b);
        map_release(&b.by_name);
        return list;
}

const char *env_get(const char *const *env, const char *name)
{
        size_t n = strlen(name);

        for (size_t i = 0; env[i]; i++) {
                if (strncmp(env[i], name, n) == 0 && env[i][n] == '=')
                        return env[i] + n + 1;
        }
        return NULL;
}

static bool is_set(const struct env_policy *policy, struct slice name)
{
        for (size_t i = 0; i < policy->set_count; i++)
                if (slice_eq(policy->set[i].name, name))
                        return true;
        return false;
}

bool env_admits(const struct env_policy *policy, struct slice name)
{
        if (env_is_server_name(name))
                return false;
        if (!policy)
                return true;
        if (is_excluded(policy, name) && !is_set(policy, name))
                return false;
        return policy->include_only_count == 0 ||
               is_matched(name, policy->include_only, policy->include_only_count);
}

struct slice env_tmpdir(struct arena *a, const char *value, struct slice cwd)
{
        if (!value || !value[0] || value[0] == '/')
                return slice_from_str(value ? value : "");
        if (cwd.n == 0)
                return S("");
        return slice_from_str(arena_printf(a, "%.*s/%s", SLICE(cwd), value));
}

void env_scrub(char **environment)
{
        char **kept = environment;
        for (char **at = environment; *at; at++) {
                struct slice rest = slice_from_str(*at);
                struct slice name = slice_split(&rest, '=');
                if (env_is_server_name(name))
                        explicit_bzero(*at, strlen(*at));
                else
                        *kept++ = *at;
        }
        *kept = NULL;
}
