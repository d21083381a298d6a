/* legacy_test: how policies of older clients are read, and the vectors of their conversion to profiles and back. */
#include "proto/legacy.h"

#include "proto/rig_internal.h"

#include <errno.h>

static int decode_policy(struct arena *a, const struct json_doc *doc, const struct json *value, void *ret,
                         struct err *err)
{
        return sandbox_policy_decode(a, doc, value, ret, err);
}

static void write_roots(struct jsonw *w, const char *key, const struct slice *roots, size_t count)
{
        if (count == 0)
                return;
        jsonw_key(w, key);
        jsonw_array(w);
        for (size_t i = 0; i < count; i++)
                profile_write_path(w, roots[i]);
        jsonw_array_end(w);
}

static void write_read_access(struct jsonw *w, const char *key, const struct read_access *read)
{
        if (!read->is_restricted)
                return;
        jsonw_key(w, key);
        jsonw_object(w);
        jsonw_member_str(w, "type", "restricted");
        jsonw_member_bool(w, "include_platform_defaults", read->has_platform);
        write_roots(w, "readable_roots", read->roots, read->root_count);
        jsonw_object_end(w);
}

/* Writes a policy in the first spelling, without empty members. */
static void write_policy(struct jsonw *w, const struct sandbox_policy *policy)
{
        static const char *const kinds[] = {
                [SANDBOX_POLICY_FULL_ACCESS] = "danger-full-access",
                [SANDBOX_POLICY_READ_ONLY] = "read-only",
                [SANDBOX_POLICY_EXTERNAL] = "external-sandbox",
                [SANDBOX_POLICY_WORKSPACE_WRITE] = "workspace-write",
        };

        jsonw_object(w);
        jsonw_member_str(w, "type", kinds[policy->kind]);
        if (policy->kind == SANDBOX_POLICY_READ_ONLY) {
                write_read_access(w, "access", &policy->read);
                if (policy->has_network)
                        jsonw_member_bool(w, "network_access", true);
        } else if (policy->kind == SANDBOX_POLICY_EXTERNAL) {
                jsonw_member_str(w, "network_access", policy->has_network ? "enabled" : "restricted");
        } else if (policy->kind == SANDBOX_POLICY_WORKSPACE_WRITE) {
                write_roots(w, "writable_roots", policy->writable_roots, policy->writable_root_count);
                write_read_access(w, "read_only_access", &policy->read);
                jsonw_member_bool(w, "network_access", policy->has_network);
                jsonw_member_bool(w, "exclude_tmpdir_env_var", policy->excludes_tmpdir);
                jsonw_member_bool(w, "exclude_slash_tmp", policy->excludes_slash_tmp);
        }
        jsonw_object_end(w);
}

static const char *policy_text(struct arena *a, const struct sandbox_policy *policy)
{
        _buf_ struct buf out = BUF_INIT(RIG_TEXT_MAX);
        struct jsonw w;

        jsonw_begin(&w, &out);
        write_policy(&w, policy);
        must(jsonw_end(&w) == 0);
        return arena_dup(a, buf_slice(&out));
}

/* Reads a policy in either of the two spellings and returns it in kebab-case, or the text of the error. ' stands for " in both
 * texts. */
static const char *as_kebab_case(struct arena *a, const char *text)
{
        struct sandbox_policy policy;
        struct err err = ERR_INIT;

        if (test_decode(a, decode_policy, text, &policy, &err) < 0) {
                eq_int(err.client_code, RPC_INVALID_PARAMS);
                return arena_dup(a, slice_from_str(err.text));
        }
        char *out = arena_dup(a, slice_from_str(policy_text(a, &policy)));
        for (char *p = out; *p; p++)
                *p = *p == '"' ? '\'' : *p;
        return out;
}

TEST(both_spellings_of_a_policy_are_one_policy)
{
        _arena_ struct arena a = ARENA_INIT;

        static const char *const pairs[][2] = {
                { "{'type':'danger-full-access'}", "{'type':'dangerFullAccess'}" },
                { "{'type':'read-only','network_access':true}", "{'type':'readOnly','networkAccess':true}" },
                { "{'type':'external-sandbox','network_access':'enabled'}",
                  "{'type':'externalSandbox','networkAccess':'enabled'}" },
                { "{'type':'read-only','access':{'type':'restricted','include_platform_defaults':false,"
                  "'readable_roots':['/r']},'network_access':true}",
                  "{'type':'readOnly','access':{'type':'restricted','includePlatformDefaults':false,"
                  "'readableRoots':['/r']},'networkAccess':true}" },
                { "{'type':'workspace-write','writable_roots':['/w'],'read_only_access':{'type':'restricted',"
                  "'include_platform_defaults':true,'readable_roots':['/r']},'network_access':true,"
                  "'exclude_tmpdir_env_var':true,'exclude_slash_tmp':false}",
                  "{'type':'workspaceWrite','writableRoots':['/w'],'readOnlyAccess':{'type':'restricted',"
                  "'includePlatformDefaults':true,'readableRoots':['/r']},'networkAccess':true,"
                  "'excludeTmpdirEnvVar':true,'excludeSlashTmp':false}" },
        };
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
                eq_str(as_kebab_case(&a, pairs[i][0]), pairs[i][0]);
                eq_str(as_kebab_case(&a, pairs[i][1]), pairs[i][0]);
        }
}

TEST(members_of_a_policy_have_defaults)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(as_kebab_case(&a, "{'type':'read-only'}"), "{'type':'read-only'}");
        eq_str(as_kebab_case(&a, "{'type':'externalSandbox'}"),
               "{'type':'external-sandbox','network_access':'restricted'}");
        eq_str(as_kebab_case(&a, "{'type':'workspace-write'}"),
               "{'type':'workspace-write','network_access':false,'exclude_tmpdir_env_var':false,"
               "'exclude_slash_tmp':false}");
        eq_str(as_kebab_case(&a, "{'type':'read-only','access':{'type':'full-access'}}"),
               "{'type':'read-only'}");
        eq_str(as_kebab_case(&a, "{'type':'readOnly','access':{'type':'fullAccess'}}"),
               "{'type':'read-only'}");
        eq_str(as_kebab_case(&a, "{'type':'read-only','access':{'type':'restricted'}}"),
               "{'type':'read-only','access':{'type':'restricted','include_platform_defaults':true}}");
}

TEST(paths_of_a_policy_are_absolute_and_become_clean)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(as_kebab_case(&a, "{'type':'workspace-write','writable_roots':['/a/./b/../c//']}"),
               "{'type':'workspace-write','writable_roots':['/a/c'],'network_access':false,"
               "'exclude_tmpdir_env_var':false,'exclude_slash_tmp':false}");
        eq_str(as_kebab_case(&a, "{'type':'workspace-write','writable_roots':['/ok','a/b']}"),
               "writable_roots[1]: path is not absolute: a/b");
        eq_str(as_kebab_case(&a, "{'type':'workspace-write','writable_roots':['file:///a']}"),
               "writable_roots[0]: path is not absolute: file:///a");
        eq_str(as_kebab_case(&a, "{'type':'readOnly','access':{'type':'restricted','readableRoots':['']}}"),
               "access: readableRoots[0]: path is not absolute: ");
        eq_str(as_kebab_case(&a, "{'type':'workspace-write','writable_roots':[7]}"),
               "writable_roots[0]: invalid type: number, expected a string");
}

TEST(what_a_policy_does_not_have_is_refused_by_name)
{
        static const char *const bad[][2] = {
                { "[]", "invalid type: sequence, expected struct SandboxPolicy" },
                { "{}", "missing field `type`" },
                { "{'type':'workspace-write','writableRoots':['/w']}", "unknown field `writableRoots`" },
                { "{'type':'workspaceWrite','exclude_slash_tmp':true}", "unknown field `exclude_slash_tmp`" },
                { "{'type':'workspace-write','access':{'type':'restricted'}}", "unknown field `access`" },
                { "{'type':'read-only','read_only_access':{'type':'restricted'}}",
                  "unknown field `read_only_access`" },
                { "{'type':'danger-full-access','network_access':false}", "unknown field `network_access`" },
                { "{'type':'read-only','fileSystemSandboxPolicy':{}}",
                  "unknown field `fileSystemSandboxPolicy`" },
                { "{'type':'read-only','network_access':'enabled'}",
                  "network_access: invalid type: string \"enabled\", expected a boolean" },
                { "{'type':'read-only','network_access':null}",
                  "network_access: invalid type: null, expected a boolean" },
                { "{'type':'external-sandbox','network_access':true}",
                  "network_access: invalid type: boolean `true`, expected string or map" },
                { "{'type':'external-sandbox','network_access':'open'}",
                  "network_access: unknown variant `open`, expected `restricted` or `enabled`" },
                { "{'type':'read-only','access':null}",
                  "access: invalid type: null, expected struct ReadOnlyAccess" },
                { "{'type':'read-only','access':{}}", "access: missing field `type`" },
                { "{'type':'read-only','access':{'type':'fullAccess'}}",
                  "access: type: unknown variant `fullAccess`, expected `full-access` or `restricted`" },
                { "{'type':'read-only','access':{'type':'restricted','readableRoots':['/r']}}",
                  "access: unknown field `readableRoots`" },
                { "{'type':'read-only','access':{'type':'full-access','readable_roots':['/r']}}",
                  "access: unknown field `readable_roots`" },
                { "{'type':'workspaceWrite','readOnlyAccess':{'type':'restricted','includePlatformDefaults':"
                  "1}}",
                  "readOnlyAccess: includePlatformDefaults: invalid type: number, expected a boolean" },
                { "{'type':'workspace-write','writable_roots':'/w'}",
                  "writable_roots: invalid type: string \"/w\", expected a sequence" },
        };
        _arena_ struct arena a = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_str(as_kebab_case(&a, bad[i][0]), bad[i][1]);
        ok(slice_starts(slice_from_str(as_kebab_case(&a, "{'type':'Read-Only'}")),
                        S("type: unknown variant `Read-Only`, expected one of `danger-full-access`, ")));
}

TEST(a_policy_has_a_bounded_number_of_roots)
{
        _buf_ struct buf text = BUF_INIT(RIG_TEXT_MAX);
        _arena_ struct arena a = ARENA_INIT;

        must(buf_append(&text, S("{'type':'workspace-write','writable_roots':['/0'")) == 0);
        for (int i = 1; i < SANDBOX_POLICY_ROOTS_MAX; i++)
                must(buf_printf(&text, ",'/%d'", i) == 0);
        size_t n = text.n;
        must(buf_append(&text, S("]}")) == 0);
        ok(slice_starts(slice_from_str(as_kebab_case(&a, text.p)), S("{'type':'workspace-write',")));

        buf_truncate(&text, n);
        must(buf_append(&text, S(",'/x']}")) == 0);
        eq_str(as_kebab_case(&a, text.p), "writable_roots: at most 1024 paths");
}

/* --- vectors ------------------------------------------------------------------------------------------------------ */

/* Vectors for which our result differs from the vector, and why. */
static const struct {
        const char *name, *why, *want;
} ours[] = {
        { "app_read_only_restricted",
          "the reference refuses restricted reads in the application form; ours loads them faithfully",
          "{\"type\":\"managed\",\"file_system\":{\"type\":\"restricted\",\"entries\":["
          "{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"project_roots\"}},\"access\":\"read\"},"
          "{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"minimal\"}},\"access\":\"read\"}]},"
          "\"network\":\"restricted\"}" },
        { "app_workspace_restricted", "the same, with the entries of a workspace that may be written", NULL },
        { "old_workspace_restricted",
          "the vector leaves the protected names out; a restricted reader is no reason to open .git", NULL },
};

/* Returns the profile of a restricted workspace-write policy. `reads` and `tmp` are the entries that differ between policies. */
static const char *workspace_text(struct arena *a, const char *reads, const char *tmp)
{
        const char *text =
                arena_printf(a,
                             "{\"type\":\"managed\",\"file_system\":{\"type\":\"restricted\",\"entries\":[%s"
                             "{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"project_roots\"}},"
                             "\"access\":\"write\"}%s",
                             reads, tmp);

        for (size_t i = 0; rules_protected_names[i]; i++)
                text = arena_printf(
                        a,
                        "%s,{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"project_roots\","
                        "\"subpath\":\"%s\"}},\"access\":\"read\",\"missing_path_behavior\":\"skip\"}",
                        text, rules_protected_names[i]);
        return arena_printf(a, "%s]},\"network\":\"restricted\"}", text);
}

static const char *our_want(struct arena *a, const char *name, const char *want)
{
        static const char minimal[] =
                "{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"minimal\"}},\"access\":\"read\"},";
        static const char other[] =
                "{\"path\":{\"type\":\"path\",\"path\":\"" TEST_O "\"},\"access\":\"read\"},";
        static const char tmp[] =
                ",{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"slash_tmp\"}},\"access\":\"write\"}"
                ",{\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"tmpdir\"}},\"access\":\"write\"}";

        for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
                if (strcmp(ours[i].name, name) != 0)
                        continue;
                print_message("%s: %s\n", name, ours[i].why);
                if (ours[i].want)
                        return ours[i].want;
                return strcmp(name, "app_workspace_restricted") == 0
                               ? workspace_text(a, minimal, tmp)
                               : workspace_text(a, arena_printf(a, "%s%s", minimal, other), "");
        }
        return want;
}

/* Finds the protected paths among the files of a test case, as the caller of the conversion would: the target of a .git file first.
 * Returns their number. */
static size_t find_protected(struct arena *a, const struct json_doc *doc, const struct json *test,
                             struct slice *ret)
{
        const struct json *files = json_get(doc, test, S("files"));
        size_t n = 0;

        if (!files)
                return 0;
        json_each (it, doc, files) {
                struct slice content = slice_from_str(rig_string(a, doc, it, "content"));
                struct slice path = slice_from_str(rig_string(a, doc, it, "path"));
                if (!slice_eq(path, S(TEST_O "/.git")))
                        continue;
                if (slice_starts(content, S("gitdir: ")))
                        ret[n++] = slice_from_str(arena_printf(a, TEST_O "/%s", content.p + 8));
                ret[n++] = path;
        }
        return n;
}

static const char *run_to_profile(struct arena *a, const struct json_doc *doc, const struct json *test)
{
        struct slice found[2];
        struct policy_host host = { .protected_paths = found };
        struct sandbox_policy policy;
        struct err err = ERR_INIT;
        struct profile p;

        host.protected_count = find_protected(a, doc, test, found);
        if (sandbox_policy_decode(a, doc, json_get(doc, test, S("legacy")), &policy, &err) < 0)
                return arena_dup(a, slice_from_str(err.text));
        sandbox_policy_to_profile(a, &policy, &host, &p);
        return rig_profile_text(a, &p);
}

static const char *run_to_policy(struct arena *a, const struct json_doc *doc, const struct json *test)
{
        struct sandbox_policy policy;
        struct err err = ERR_INIT;
        struct profile p;

        must(profile_decode_stored(a, doc, json_get(doc, test, S("profile")), &p, &err) == 0);
        struct slice cwd = slice_from_str(rig_string(a, doc, test, "cwd"));
        int r = sandbox_policy_from_profile(a, &p, cwd, &policy, NULL, &err);
        if (r == -EINVAL)
                return arena_dup(a, slice_from_str(err.text));
        eq_int(r, 0);
        return policy_text(a, &policy);
}

TEST(vectors_of_old_policies_pass)
{
        _buf_ struct buf text = BUF_INIT(RIG_TEXT_MAX);
        _arena_ struct arena a = ARENA_INIT;
        int failures = 0, count = 0;
        struct json_doc doc;

        const struct json *cases = json_get(&doc, test_vectors(&a, "legacy.json", &text, &doc), S("cases"));
        json_each (test, &doc, cases) {
                const char *name = rig_string(&a, &doc, test, "name");
                const char *direction = rig_string(&a, &doc, test, "direction");
                bool to_profile = strcmp(direction, "legacy_to_profile") == 0;
                const char *want = rig_string(&a, &doc, test, "error");
                if (!*want)
                        want = rig_member(&a, &doc, test, to_profile ? "profile" : "legacy");
                ok(to_profile || strcmp(direction, "profile_to_legacy") == 0);
                const char *got = to_profile ? run_to_profile(&a, &doc, test) : run_to_policy(&a, &doc, test);
                failures += rig_differs(name, our_want(&a, name, want), got);
                count++;
        }
        eq_int(count, 36);
        eq_int(failures, 0);
}
