/* command: checks the struct of a command, and writes it as the params of process/start. */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

/* The command gets the variables of the server, except those that look like secrets. */
static const char default_policy[] =
        "{\"inherit\":\"all\",\"ignoreDefaultExcludes\":false,\"exclude\":[],\"set\":{},\"includeOnly\":[]}";

static void write_env(struct jsonw *w, const char *const *env)
{
        jsonw_object(w);
        for (; env && *env; env++) {
                struct slice value = slice_from_str(*env), name = slice_split(&value, '=');
                _buf_ struct buf key = BUF_INIT(REQUEST_MAX);
                struct jsonw k;
                jsonw_begin(&k, &key);
                jsonw_string(&k, name);
                if (jsonw_end(&k) < 0)
                        continue;
                /* jsonw_key escapes nothing, and a name may need escapes: so jsonw_key gets the escaped text, without its
                 * quotes. */
                key.p[key.n - 1] = '\0';
                jsonw_key(w, key.p + 1);
                jsonw_string(w, value.p ? value : S(""));
        }
        jsonw_object_end(w);
}

static void write_texts(struct jsonw *w, const char *key, const char *const *texts)
{
        jsonw_key(w, key);
        jsonw_array(w);
        for (; texts && *texts; texts++)
                jsonw_str(w, *texts);
        jsonw_array_end(w);
}

static void write_policy(struct jsonw *w, const struct farhand_command *c)
{
        static const char *const inherits[] = { [FARHAND_INHERIT_ALL] = "all",
                                                [FARHAND_INHERIT_CORE] = "core",
                                                [FARHAND_INHERIT_NONE] = "none" };
        jsonw_key(w, "envPolicy");
        if (!c->policy) {
                jsonw_raw(w, slice_from_str(c->env_policy ? c->env_policy : default_policy));
                return;
        }
        struct farhand_env_policy policy = { 0 };
        memcpy(&policy, c->policy, MIN(c->policy->size, sizeof(policy)));
        jsonw_object(w);
        jsonw_member_str(w, "inherit", inherits[policy.inherit]);
        jsonw_member_bool(w, "ignoreDefaultExcludes", policy.with_secrets);
        write_texts(w, "exclude", policy.exclude);
        jsonw_key(w, "set");
        write_env(w, policy.set);
        write_texts(w, "includeOnly", policy.include_only);
        jsonw_object_end(w);
}

static void write_limits(struct jsonw *w, const struct farhand_limits *given)
{
        struct farhand_limits limits = { 0 };
        memcpy(&limits, given, MIN(given->size, sizeof(limits)));
        const struct {
                const char *key;
                uint64_t value;
        } members[] = { { "wallMs", limits.wall_ms },         { "silenceMs", limits.silence_ms },
                        { "cpuSeconds", limits.cpu_seconds }, { "memoryBytes", limits.memory_bytes },
                        { "openFiles", limits.open_files },   { "processes", limits.processes },
                        { "fileBytes", limits.file_bytes } };
        jsonw_object(w);
        for (size_t i = 0; i < ARRAY_LEN(members); i++)
                if (members[i].value > 0)
                        jsonw_member_u64(w, members[i].key, members[i].value);
        jsonw_object_end(w);
}

int client_command_check(const struct farhand *f, const struct farhand_command *c,
                         struct farhand_error *ret_error)
{
        if (!c->argv || !c->argv[0])
                return error_set(ret_error, -EINVAL, "a command needs a program");
        if (c->cwd && c->cwd[0] != '/')
                return error_set(ret_error, -EINVAL, "the directory `%s` is no absolute path", c->cwd);
        if ((c->limit && c->limits) || (c->policy && c->env_policy))
                return error_set(ret_error, -EINVAL, "limits or a policy are given twice");
        if ((c->limit && c->limit->size < sizeof(c->limit->size)) ||
            (c->policy && (c->policy->size < offsetof(struct farhand_env_policy, with_secrets) ||
                           (unsigned)c->policy->inherit > FARHAND_INHERIT_NONE)))
                return error_set(ret_error, -EINVAL, "limits or a policy have no size, or make no sense");
        /* A server that does not know these members would let everything run. */
        if (c->limit && !f->has_process_control)
                return error_set(ret_error, -EOPNOTSUPP, "this server has no limits (processControlV1)");
        if (c->intercept && !farhand_has_capability(f, "execInterceptV1"))
                return error_set(ret_error, -EOPNOTSUPP,
                                 "this server intercepts no programs (execInterceptV1)");
        return c->network ? client_network_check(f, c->network, ret_error) : 0;
}

/* Returns the working directory of the server, or NULL when the server does not tell it. */
static char *server_cwd(const struct farhand *f)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(TRANSPORT_MESSAGE_MAX);
        struct json_doc doc;
        struct json_error bad;
        if (buf_append(&text, slice_from_str(f->info)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return NULL;
        const struct json *cwd =
                json_get(&doc, json_get(&doc, json_root(&doc), S("environmentInfo")), S("cwd"));
        return cwd && cwd->type == JSON_STRING ? slice_dup(json_string(&a, &doc, cwd)) : NULL;
}

static void write_cwd(const struct farhand *f, struct jsonw *w, const char *cwd)
{
        jsonw_key(w, "cwd");
        if (cwd) {
                client_path_write(f, w, cwd);
                return;
        }
        _free_ char *own = server_cwd(f); /* this path is spelled as the server wants it already */
        jsonw_str(w, own ? own : f->wants_uris ? "file:///" : "/");
}

/* Writes the member `shellSnapshot`, when the command and the server are such that it can have an effect. A server refuses the name of
 * a shell that it does not know. */
static void write_snapshot(const struct farhand *f, struct jsonw *w, const struct farhand_command *c)
{
        static const char *const shells[] = { "bash", "zsh", "sh" };
        const char *slash = strrchr(c->argv[0], '/');
        if (!c->snapshot_scope || !slash || !c->argv[1] || strcmp(c->argv[1], "-lc") != 0 ||
            slice_find(slice_from_str(slash + 1), shells, ARRAY_LEN(shells)) == ARRAY_LEN(shells) ||
            !farhand_has_capability(f, "shellSnapshotV2"))
                return;
        jsonw_key(w, "shellSnapshot");
        jsonw_object(w);
        jsonw_member_str(w, "scopeId", c->snapshot_scope);
        jsonw_key(w, "shell");
        jsonw_object(w);
        jsonw_member_str(w, "name", slash + 1);
        jsonw_member_str(w, "path", c->argv[0]);
        jsonw_object_end(w);
        jsonw_object_end(w);
}

void client_command_write(const struct farhand *f, struct jsonw *w, const char *id,
                          const struct farhand_command *c)
{
        jsonw_object(w);
        jsonw_member_str(w, "processId", id);
        jsonw_key(w, "argv");
        jsonw_array(w);
        for (size_t i = 0; c->argv[i]; i++)
                jsonw_str(w, c->argv[i]);
        jsonw_array_end(w);
        write_cwd(f, w, c->cwd);
        jsonw_key(w, "env");
        write_env(w, c->env);
        write_policy(w, c);
        jsonw_member_bool(w, "tty", c->tty);
        jsonw_member_bool(w, "pipeStdin", !c->tty && c->stdin_open);
        jsonw_member_str(w, "arg0", c->arg0);
        if (c->tty && f->has_process_control && c->rows > 0 && c->columns > 0) {
                jsonw_key(w, "io");
                jsonw_object(w);
                jsonw_member_str(w, "type", "pty");
                jsonw_member_u64(w, "rows", c->rows);
                jsonw_member_u64(w, "cols", c->columns);
                jsonw_object_end(w);
        }
        if (c->prepared)
                jsonw_member_str(w, "kind", "prepared");
        if (c->sandbox) {
                jsonw_key(w, "sandbox");
                jsonw_raw(w, slice_from_str(c->sandbox));
        }
        if (c->limits || c->limit)
                jsonw_key(w, "limits");
        if (c->limits)
                jsonw_raw(w, slice_from_str(c->limits));
        else if (c->limit)
                write_limits(w, c->limit);
        write_snapshot(f, w, c);
        if (c->intercept)
                client_intercept_write(w, c->intercept);
        if (c->network)
                client_network_write(w, c->network);
        jsonw_object_end(w);
}
