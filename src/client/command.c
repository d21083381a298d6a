/* command: writes the params of process/start. */
#include "client/client.h"

#include "base/mem.h"

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
        jsonw_key(w, "envPolicy");
        jsonw_raw(w, slice_from_str(c->env_policy ? c->env_policy : default_policy));
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
        if (c->limits) {
                jsonw_key(w, "limits");
                jsonw_raw(w, slice_from_str(c->limits));
        }
        write_snapshot(f, w, c);
        if (c->intercept)
                client_intercept_write(w, c->intercept);
        jsonw_object_end(w);
}
