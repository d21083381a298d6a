/* fuzz_environments: of any bytes environments.toml gives either a sound list of environments or an error of one printable line.
 * What was read takes one more environment, with and without making it the default, and all others stay as they were. */
#include "base/authority.h"
#include "env/environment_url.h"
#include "env/environments_add.h"
#include "env/environments_toml.h"

#define PATH "/d/environments.toml"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_printable(const char *text)
{
        for (; *text; text++)
                check((uint8_t)*text >= ' ' && *text != 0x7f);
}

static bool same(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check_environment(const struct environment *e)
{
        struct authority ssh;

        check(e->id && strlen(e->id) > 0 && strlen(e->id) <= ENVIRONMENT_ID_MAX);
        check((e->kind == ENVIRONMENT_URL || e->kind == ENVIRONMENT_SSH) == !!e->url);
        check((e->kind == ENVIRONMENT_COMMAND) == !!e->argv);
        check((e->kind == ENVIRONMENT_LOCAL) == (strcmp(e->id, ENVIRONMENT_LOCAL_ID) == 0));
        check(e->url || (!e->token_file && !e->token_env));
        check(!e->token_file || !e->token_env);
        check(!e->token_file || e->token_file[0] == '/');
        check(e->argv || (!e->cwd && e->env_count == 0));
        check(!e->argv || e->argv[0][0]);
        check(!e->cwd || e->cwd[0] == '/');
        check_printable(e->id);
        if (e->url)
                check_printable(e->url);
        for (size_t i = 0; i < e->env_count; i++)
                check(e->env[i].name[0] && !strchr(e->env[i].name, '='));
        if (e->kind == ENVIRONMENT_SSH)
                check(!authority_parse_ssh(slice_from_str(e->url), &ssh) && ssh.host.n > 0 &&
                      ssh.host.p[0] != '-' && (!ssh.has_user || (ssh.user.n > 0 && ssh.user.p[0] != '-')));
}

static void check_same(const struct environment *x, const struct environment *y)
{
        check(same(x->id, y->id) && x->kind == y->kind && same(x->url, y->url) && same(x->cwd, y->cwd));
        check(same(x->token_file, y->token_file) && same(x->token_env, y->token_env));
        check(x->connect_timeout_ms == y->connect_timeout_ms);
        check(x->initialize_timeout_ms == y->initialize_timeout_ms && x->env_count == y->env_count);
        for (size_t i = 0; i < x->env_count; i++)
                check(same(x->env[i].name, y->env[i].name) && same(x->env[i].value, y->env[i].value));
        for (size_t i = 0; x->argv; i++) {
                check(same(x->argv[i], y->argv[i]));
                if (!x->argv[i])
                        break;
        }
}

static void check_add(struct arena *a, struct slice text, const struct environments *old, bool is_default)
{
        static const char *const args[] = { "--listen", "stdio \"x\"\n" };
        const struct environment_addition add = {
                .id = "fuzz-new", .program = "p", .args = args, .arg_count = 2, .is_default = is_default
        };
        struct environments new;
        struct err err = ERR_INIT;
        struct slice out;

        if (environments_add(a, text, PATH, &add, &out, &err) < 0) {
                /* These errors would mean that environments_add itself made a mistake. */
                check(!strstr(err.text, "was meant") && !strstr(err.text, "was not found"));
                check_printable(err.text);
                return;
        }
        check(environments_parse(a, out, PATH, &new, &err) == 0 && new.count == old->count + 1);
        for (size_t i = 0; i < old->count; i++)
                check_same(&old->list[i], &new.list[i]);
        check(same(new.list[old->count].id, add.id));
        check(same(new.list[old->count].argv[2], args[1]));
        check(new.default_index == (is_default ? old->count : old->default_index));
        check(is_default || slice_starts(out, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct environments e;
        struct slice text = slice_from(data, size);

        if (environments_parse(&a, text, PATH, &e, &err) < 0) {
                check(err.code < 0 && err.text[0]);
                check_printable(err.text);
                return 0;
        }
        check(e.default_index == ENVIRONMENTS_NONE || e.default_index < e.count);
        for (size_t i = 0; i < e.count; i++) {
                check_environment(&e.list[i]);
                check(environments_find(&e, slice_from_str(e.list[i].id)) == &e.list[i]);
        }
        check_add(&a, text, &e, false);
        check_add(&a, text, &e, true);
        return 0;
}
