/* linux_sandbox: reads the command line of `codex-linux-sandbox` and finds the permissions and the command in it. */
#include "proto/linux_sandbox.h"

#include "base/uri.h"
#include "proto/legacy.h"
#include "proto/profile_internal.h"

#include <errno.h>

enum option { POLICY_CWD, COMMAND_CWD, POLICY, FILE_POLICY, NETWORK_POLICY, PROFILE, OPTIONS };

static const char *const option_names[OPTIONS] = {
        [POLICY_CWD] = "--sandbox-policy-cwd",
        [COMMAND_CWD] = "--command-cwd",
        [POLICY] = "--sandbox-policy",
        [FILE_POLICY] = "--file-system-sandbox-policy",
        [NETWORK_POLICY] = "--network-sandbox-policy",
        [PROFILE] = "--permission-profile",
};

/* Options that choose how codex-linux-sandbox enforces its policy; they do not change the policy. */
static const char *const flags_without_effect[] = { "--use-legacy-landlock", "--no-proc" };

static int refuse(struct err *err, const char *what, struct slice more)
{
        return err_set(err, RPC_INVALID_PARAMS, -EINVAL, LINUX_SANDBOX_NAME ": %s%.*s", what, SLICE(more));
}

bool linux_sandbox_is_named(struct slice program)
{
        const char *slash = program.n ? memrchr(program.p, '/', program.n) : NULL;
        size_t skipped = slash ? (size_t)(slash + 1 - program.p) : 0;

        return slice_eq(slice_from(program.p + skipped, program.n - skipped), S(LINUX_SANDBOX_NAME));
}

/* --- reading the command line ------------------------------------------------------------------------------------- */

/* Reads the options into `values`. *ret_command is the index of the first word that is no option. */
static int split(const struct slice *argv, size_t argc, struct slice values[OPTIONS], size_t *ret_command,
                 struct err *err)
{
        size_t i = 1;

        for (; i < argc && argv[i].n > 0 && argv[i].p[0] == '-'; i++) {
                if (slice_eq(argv[i], S("--"))) {
                        i++;
                        break;
                }
                if (slice_find(argv[i], flags_without_effect, ARRAY_LEN(flags_without_effect)) <
                    ARRAY_LEN(flags_without_effect))
                        continue;
                struct slice value = argv[i], name = slice_split(&value, '=');
                size_t which = slice_find(name, option_names, OPTIONS);
                if (which == OPTIONS)
                        return refuse(err, "this argument cannot be mapped to a sandbox here: ", argv[i]);
                if (values[which].p)
                        return refuse(err, "given twice: ", name);
                if (!value.p && ++i == argc)
                        return refuse(err, "a value is missing behind ", name);
                values[which] = value.p ? value : argv[i];
        }
        if (i == argc)
                return refuse(err, "there is no command", S(""));
        *ret_command = i;
        return 0;
}

static int decode_directory(struct arena *a, const char *name, struct slice text, struct slice *ret,
                            struct err *err)
{
        if (text.n == 0 || text.p[0] != '/' || uri_to_path(a, text, ret, NULL) != URI_OK)
                return err_set(err, RPC_INVALID_PARAMS, -EINVAL,
                               LINUX_SANDBOX_NAME ": %s is not absolute: %.*s", name, SLICE(text));
        return 0;
}

/* --- reading the policy ------------------------------------------------------------------------------------------- */

static int parse(struct arena *a, struct slice text, struct json_doc *ret, struct err *err)
{
        struct json_error why;
        char *padded = arena_zalloc(a, text.n + BUF_PADDING);

        memcpy(padded, text.p, text.n);
        if (json_parse(a, slice_from(padded, text.n), ret, &why) < 0)
                return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "%s", why.text);
        return 0;
}

/* Refuses unknown members. The decoders of profiles skip them, as newer clients expect. But wrapped commands come from older
 * clients, whose members are all known; an unknown one may forbid something. */
static int refuse_unknown(struct arena *a, const struct json_doc *doc, struct err *err)
{
        static const char *const known[] = {
                "type",
                "kind",
                "file_system",
                "network",
                "enabled",
                "entries",
                "glob_scan_max_depth",
                "path",
                "value",
                "pattern",
                "subpath",
                "access",
                "read",
                "write",
                "missing_path_behavior",
        };

        for (const struct json *v = doc->tokens; v < doc->tokens + doc->count; v++) {
                if (v->type != JSON_OBJECT)
                        continue;
                json_each (it, doc, v) {
                        struct slice key = json_string(a, doc, it);
                        if (slice_find(key, known, ARRAY_LEN(known)) == ARRAY_LEN(known))
                                return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "unknown field `%.*s`",
                                               SLICE(key));
                }
        }
        return 0;
}

static int decode_files(struct arena *a, const struct json_doc *doc, struct profile *ret, struct err *err)
{
        static const char *const kinds[] = { "restricted", "unrestricted", "external-sandbox" };
        static const char *const names[] = { "kind", "entries", "glob_scan_max_depth" };
        struct profile_files files = { 0 };
        struct decoder d;
        size_t kind = 0;

        decode_begin(&d, a, doc, json_root(doc), "FileSystemSandboxPolicy", err);
        decode_own_members(&d);
        profile_refuse_others(&d, names, ARRAY_LEN(names));
        decode_variant(&d, "kind", kinds, ARRAY_LEN(kinds), &kind);
        bool has_entries = !d.has_failed && decode_peek(&d, "entries");
        if (has_entries)
                profile_decode_entries(&d, PROFILE_FORM_STORED, &files);
        if (kind != 0 && files.count > 0)
                decode_fail(&d, "only a restricted file system has entries");
        *ret = (struct profile){
                .kind = kind == 2 ? PROFILE_EXTERNAL : PROFILE_MANAGED,
                .is_unrestricted = kind == 1,
                .entries = files.entries,
                .count = files.count,
                .glob_depth = files.glob_depth,
        };
        return decode_end(&d);
}

static int decode_network(struct arena *a, const struct json_doc *doc, bool *ret, struct err *err)
{
        const struct json *v = json_root(doc);
        struct slice text = v->type == JSON_STRING ? json_string(a, doc, v) : S("");

        *ret = slice_eq(text, S("enabled"));
        if (*ret || slice_eq(text, S("restricted")))
                return 0;
        return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "expected \"restricted\" or \"enabled\"");
}

static int decode_policy(struct arena *a, const struct json_doc *doc, const struct sandbox_context *context,
                         struct profile *ret, struct err *err)
{
        struct sandbox_policy policy;
        int r = sandbox_policy_decode(a, doc, json_root(doc), &policy, err);

        if (r < 0)
                return r;
        const struct place place = { .cwd = context->cwd, .roots = &context->cwd, .root_count = 1 };
        const struct policy_host host = { .place = &place };
        sandbox_policy_to_profile(a, &policy, &host, ret);
        return 0;
}

/* Makes the profile. When the options give the policy in several forms, the most expressive form is used. */
static int decode_profile(struct arena *a, const struct slice values[OPTIONS],
                          const struct sandbox_context *context, struct profile *ret, struct err *err)
{
        enum option which = values[PROFILE].p ? PROFILE : values[FILE_POLICY].p ? FILE_POLICY : POLICY;
        struct json_doc doc;

        if (which == PROFILE && (values[POLICY].p || values[FILE_POLICY].p || values[NETWORK_POLICY].p))
                return refuse(err, "beside another policy: ", S("--permission-profile"));
        if (!values[which].p || (which != PROFILE && !values[FILE_POLICY].p != !values[NETWORK_POLICY].p))
                return refuse(err, "there is no policy, or only half of one", S(""));
        int r = parse(a, values[which], &doc, err);
        if (r == 0 && which != POLICY) /* the decoder of POLICY refuses unknown members itself */
                r = refuse_unknown(a, &doc, err);
        if (r == 0 && which == PROFILE)
                r = profile_decode_stored(a, &doc, json_root(&doc), ret, err);
        else if (r == 0 && which == FILE_POLICY)
                r = decode_files(a, &doc, ret, err);
        else if (r == 0)
                r = decode_policy(a, &doc, context, ret, err);
        if (r == 0 && which == FILE_POLICY) {
                which = NETWORK_POLICY;
                r = parse(a, values[which], &doc, err);
                if (r == 0)
                        r = decode_network(a, &doc, &ret->has_network, err);
        }
        return r < 0 ? err_wrap(err, LINUX_SANDBOX_NAME ": %s", option_names[which]) : 0;
}

int linux_sandbox_decode(struct arena *a, const struct slice *argv, size_t argc, struct linux_sandbox *ret,
                         struct err *err)
{
        struct slice values[OPTIONS] = { 0 };
        struct linux_sandbox w = { 0 };

        int r = split(argv, argc, values, &w.command_at, err);
        if (r == 0 && !values[POLICY_CWD].p)
                r = refuse(err, "missing: ", S("--sandbox-policy-cwd"));
        if (r == 0)
                r = decode_directory(a, option_names[POLICY_CWD], values[POLICY_CWD], &w.context.cwd, err);
        if (r == 0 && values[COMMAND_CWD].p)
                r = decode_directory(a, option_names[COMMAND_CWD], values[COMMAND_CWD], &w.command_cwd, err);
        if (r == 0)
                r = decode_profile(a, values, &w.context, &w.context.profile, err);
        if (r == 0)
                *ret = w;
        return r;
}
