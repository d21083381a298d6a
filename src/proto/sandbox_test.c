/* sandbox_test: what a server without any sandbox admits: the few profiles that forbid nothing. All other profiles are refused, and
 * so are mistakes in the `sandbox` of a request, which every server refuses. */
#include "proto/sandbox.h"

#include "proto/test_internal.h"
#include "unit.h"

#include <errno.h>

#define UNAVAILABLE "sandbox intent cannot be enforced on this executor"

#define CONTEXT(permissions) "{'windowsSandboxLevel':'disabled','permissions':" permissions "}"
#define BESIDE(more) "{'windowsSandboxLevel':'disabled','permissions':{'type':'disabled'}," more "}"
#define MANAGED(fs, net) CONTEXT("{'type':'managed','file_system':" fs ",'network':'" net "'}")
#define ENTRIES(entries) MANAGED("{'type':'restricted','entries':[" entries "]}", "enabled")
#define SPECIAL(kind, access) "{'path':{'type':'special','value':{'kind':'" kind "'}},'access':'" access "'}"
#define AT(path, access) "{'path':{'type':'path','path':'" path "'},'access':'" access "'}"
#define GLOB(access) "{'path':{'type':'glob_pattern','pattern':'**/*.env'},'access':'" access "'}"

struct row {
        const char *text;
        const char *message; /* NULL: admitted without a sandbox */
};

static void check(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct json_doc doc;
                const struct json *value = test_parse(&a, slice_from_str(rows[i].text), &doc);
                int r = sandbox_admit(&a, &doc, value, &err);

                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(err.client_code, rows[i].message ? RPC_INVALID_PARAMS : 0);
                bool is_unavailable = rows[i].message && !strcmp(rows[i].message, UNAVAILABLE);
                ok(is_unavailable == (err.reason != NULL && err.remedy != NULL));
                if (is_unavailable)
                        eq_str(err.reason, "sandboxUnavailable");
        }
}

TEST(profiles_that_ask_for_nothing_run_plainly)
{
        static const struct row rows[] = {
                { CONTEXT("{'type':'disabled'}"), NULL },
                { CONTEXT("{'type':'external','network':'enabled'}"), NULL },
                { MANAGED("{'type':'unrestricted'}", "enabled"), NULL },
                { ENTRIES(SPECIAL("root", "write")), NULL },
                { ENTRIES(AT("/srv", "write") "," SPECIAL("root", "write")), NULL },
                { ENTRIES(SPECIAL("root", "write") "," SPECIAL("project_roots", "write")), NULL },
                { MANAGED("{'type':'restricted','entries':[" SPECIAL("root",
                                                                     "write") "],"
                                                                              "'glob_scan_max_depth':null}",
                          "enabled"),
                  NULL },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(profiles_that_forbid_anything_are_refused)
{
        static const struct row rows[] = {
                { CONTEXT("{'type':'external','network':'restricted'}"), UNAVAILABLE },
                { MANAGED("{'type':'unrestricted'}", "restricted"), UNAVAILABLE },
                { MANAGED("{'type':'restricted','entries':[" SPECIAL("root", "write") "]}", "restricted"),
                  UNAVAILABLE },
                { ENTRIES(""), UNAVAILABLE },
                { ENTRIES(SPECIAL("root", "read")), UNAVAILABLE },
                { ENTRIES(AT("/", "write")), UNAVAILABLE },
                { ENTRIES(AT("file:///", "write")), UNAVAILABLE },
                { ENTRIES(AT("file:///a/..", "write")), UNAVAILABLE },
                { ENTRIES(AT("file:", "write")), "sandbox permission path is not absolute" },
                { ENTRIES(AT("file:x/..", "write")), "sandbox permission path is not absolute" },
                { CONTEXT("{'type':'disabled','network':'restricted'}"), UNAVAILABLE },
                { CONTEXT("{'type':'disabled','file_system':{}}"),
                  "only a managed profile has a file_system" },
                { MANAGED("{'type':'unrestricted','entries':[]}", "enabled"),
                  "an unrestricted file system has no entries" },
                { ENTRIES(SPECIAL("root", "deny")), UNAVAILABLE },
                { ENTRIES(SPECIAL("root", "none")), UNAVAILABLE },
                { ENTRIES(SPECIAL("project_roots", "write")), UNAVAILABLE },
                { ENTRIES(SPECIAL("current_working_directory", "write")), UNAVAILABLE },
                { ENTRIES(AT("/tmp", "write")), UNAVAILABLE },
                { ENTRIES(SPECIAL("root", "write") "," AT("/etc", "read")), UNAVAILABLE },
                { ENTRIES(AT("/etc", "deny") "," SPECIAL("root", "write")), UNAVAILABLE },
                { ENTRIES(SPECIAL("root", "write") "," SPECIAL("minimal", "read")), UNAVAILABLE },
                { ENTRIES(SPECIAL("root", "write") "," GLOB("deny")), UNAVAILABLE },
                { ENTRIES(SPECIAL("root", "write") "," GLOB("write")), UNAVAILABLE },
                { ENTRIES("{'path':{'type':'special','value':{'kind':'root','subpath':'a'}},"
                          "'access':'write'}"),
                  UNAVAILABLE },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(shapes_of_older_clients_are_mapped_or_refused_not_ignored)
{
        static const struct row rows[] = {
                { "{'sandboxPolicy':{'type':'danger-full-access'}}", NULL },
                { "{'sandboxPolicy':{'type':'danger-full-access'},'additionalPermissions':{}}", UNAVAILABLE },
                { "{'sandboxPolicyCwd':'/'}", UNAVAILABLE },
                { "{'sandboxPolicy':{'type':'read-only'},'sandboxPolicyCwd':'/'}", UNAVAILABLE },
                { "{'fileSystemSandboxPolicy':{}}", UNAVAILABLE },
                { BESIDE("'sandboxPolicy':{'type':'read-only'}"), UNAVAILABLE },
                { BESIDE("'additionalPermissions':{}"), UNAVAILABLE },
                { BESIDE("'additionalPermissions':null"), NULL },
                { CONTEXT("{'network':{'enabled':true},'file_system':null}"), UNAVAILABLE },
                { CONTEXT("{'file_system':{'read':['/']}}"), UNAVAILABLE },
                { BESIDE("'sandboxOverride':'escalatedSandboxWithRestrictions'"), UNAVAILABLE },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(a_profile_of_the_wrong_shape_is_a_mistake)
{
        static const struct row rows[] = {
                { "5", "invalid type: number, expected struct WireFileSystemSandboxContext" },
                { "[]", "invalid type: sequence, expected struct WireFileSystemSandboxContext" },
                { "{}", "missing field `permissions`" },
                { CONTEXT("5"), "invalid type: number, expected struct ExecPermissionProfile" },
                { CONTEXT("{}"), "missing field `type`" },
                { CONTEXT("{'type':5}"), "invalid type: number, expected string or map" },
                { CONTEXT("{'type':'x'}"),
                  "unknown variant `x`, expected one of `managed`, `disabled`, `external`" },
                { CONTEXT("{'type':'external'}"), "missing field `network`" },
                { CONTEXT("{'type':'external','network':true}"),
                  "invalid type: boolean `true`, expected string or map" },
                { CONTEXT("{'type':'managed'}"), "missing field `file_system`" },
                { CONTEXT("{'type':'managed','fileSystem':{}}"), "missing field `file_system`" },
                { MANAGED("{'type':'unrestricted'}", "Enabled"),
                  "unknown variant `Enabled`, expected `restricted` or `enabled`" },
                { MANAGED("{}", "enabled"), "missing field `type`" },
                { MANAGED("{'type':'restricted'}", "enabled"), "missing field `entries`" },
                { MANAGED("{'type':'restricted','entries':{}}", "enabled"),
                  "invalid type: map, expected a sequence" },
                { MANAGED("{'type':'restricted','entries':[],'glob_scan_max_depth':0}", "enabled"),
                  "invalid value: integer `0`, expected a nonzero usize" },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(an_entry_of_the_wrong_shape_is_a_mistake)
{
        static const struct row rows[] = {
                { ENTRIES("5"), "invalid type: number, expected struct ExecFileSystemSandboxEntry" },
                { ENTRIES("{}"), "missing field `path`" },
                { ENTRIES("{'path':{},'access':'read'}"), "missing field `type`" },
                { ENTRIES("{'path':{'type':'path','path':'/a'}}"), "missing field `access`" },
                { ENTRIES(AT("/a", "READ")),
                  "unknown variant `READ`, expected one of `read`, `write`, `deny`, `none`" },
                { ENTRIES(SPECIAL("bogus", "write")),
                  "unknown variant `bogus`, expected one of `root`, `minimal`, `current_working_directory`, "
                  "`project_roots`, `tmpdir`, `slash_tmp`, `unknown`" },
                { ENTRIES(SPECIAL("unknown", "write")), "missing field `path`" },
                { ENTRIES("{'path':{'type':'special'},'access':'write'}"), "missing field `value`" },
                { ENTRIES("{'path':{'type':'glob_pattern'},'access':'deny'}"), "missing field `pattern`" },
                { ENTRIES("{'path':{'type':'path','path':'/'},'access':'write','missing_path_behavior':'x'}"),
                  "unknown variant `x`, expected `skip`" },
                { ENTRIES(AT("a", "write")), "path is not absolute: a" },
                { ENTRIES(AT("file:///C:/x", "write")),
                  "invalid sandbox permission path URI: 'file:///C:/x' is invalid on 'linux'" },
                { ENTRIES(SPECIAL("root", "write") ",null"),
                  "invalid type: null, expected struct ExecFileSystemSandboxEntry" },
        };

        check(rows, ARRAY_LEN(rows));
}

TEST(what_stands_beside_the_profile_is_checked)
{
        static const struct row rows[] = {
                { BESIDE("'cwd':null,'workspaceRoots':[],'windowsSandboxPrivateDesktop':null"), NULL },
                { BESIDE("'cwd':'file:///w','workspaceRoots':['/w','file:///v']"), NULL },
                { BESIDE("'policyContext':{'cwd':'file:///w'},'userHomeDir':'file:///root'"), NULL },
                { BESIDE("'temporaryDirectories':['/tmp'],'sandboxOverride':'noOverride'"), NULL },
                { BESIDE("'windowsSandboxProxySettingsMode':'preserve','useLegacyLandlock':true"), NULL },
                { BESIDE("'sandboxOverride':'bypassSandboxFirstAttempt','later':5"), NULL },
                { BESIDE("'cwd':5"), "invalid type: number, expected a string" },
                { BESIDE("'cwd':'w'"), "path is not absolute: w" },
                { BESIDE("'cwd':'file://h/w'"), "sandbox cwd URI `file://h/w` is not valid on this "
                                                "exec-server host: 'file://h/w' is invalid on 'linux'" },
                { BESIDE("'workspaceRoots':null"), "invalid type: null, expected a sequence" },
                { BESIDE("'workspaceRoots':['/w','w']"), "path is not absolute: w" },
                { BESIDE("'userHomeDir':'~'"), "path is not absolute: ~" },
                { BESIDE("'temporaryDirectories':'/tmp'"),
                  "invalid type: string \"/tmp\", expected a sequence" },
                { BESIDE("'useLegacyLandlock':null"), "invalid type: null, expected a boolean" },
                { BESIDE("'windowsSandboxPrivateDesktop':1"), "invalid type: number, expected a boolean" },
                { BESIDE("'windowsSandboxProxySettingsMode':'x'"),
                  "unknown variant `x`, expected `reconcile` or `preserve`" },
                { BESIDE("'sandboxOverride':null"), "invalid type: null, expected string or map" },
                { "{'permissions':{'type':'disabled'},'windowsSandboxLevel':'x'}",
                  "unknown variant `x`, expected one of `disabled`, `restricted-token`, `elevated`, `mxc`" },
        };

        check(rows, ARRAY_LEN(rows));
}

/* --- the decoded context ------------------------------------------------------------------------------------------ */

#define DYNAMIC ENTRIES(SPECIAL("project_roots", "write"))
#define DYNAMIC_WITH(more)                                                                                  \
        "{" more ",'permissions':{'type':'managed','file_system':{'type':'restricted','entries':[" SPECIAL( \
                "project_roots", "write") "]},'network':'enabled'}}"

/* Decodes the `sandbox` of a request. Returns the error text, or "". */
static const char *decode(struct arena *a, const char *text, enum sandbox_use use,
                          struct sandbox_context *ret)
{
        struct err err = ERR_INIT;
        struct json_doc doc;
        const struct json *value = test_parse(a, slice_from_str(text), &doc);
        int r = sandbox_context_decode(a, &doc, value, use, ret, &err);

        eq_int(r, err.code);
        return arena_printf(a, "%s", err.text);
}

TEST(files_need_a_cwd_when_the_profile_does)
{
        _arena_ struct arena a = ARENA_INIT;
        struct sandbox_context c;
        const char *refusal = "file system sandbox context with dynamic permissions requires cwd";

        eq_str(decode(&a, DYNAMIC, SANDBOX_FOR_FILES, &c), refusal);
        eq_str(decode(&a, DYNAMIC_WITH("'workspaceRoots':['/w']"), SANDBOX_FOR_FILES, &c), refusal);
        eq_str(decode(&a, ENTRIES(GLOB("deny")), SANDBOX_FOR_FILES, &c), refusal);
        eq_str(decode(&a, DYNAMIC_WITH("'cwd':'/w'"), SANDBOX_FOR_FILES, &c), "");
        eq_str(decode(&a, ENTRIES(AT("/w", "write")), SANDBOX_FOR_FILES, &c), "");
        eq_str(decode(&a, DYNAMIC, SANDBOX_FOR_PROCESS, &c), "");
}

TEST(without_workspace_roots_a_given_cwd_stands_in)
{
        _arena_ struct arena a = ARENA_INIT;
        struct sandbox_context c;

        eq_str(decode(&a, DYNAMIC_WITH("'cwd':'file:///w/'"), SANDBOX_FOR_PROCESS, &c), "");
        struct place place = sandbox_context_place(&c, S("/other"), S("/t"));
        eq_slice(place.cwd, S("/w"));
        eq_u64(place.root_count, 1);
        eq_slice(place.roots[0], S("/w"));
        eq_slice(place.tmpdir, S("/t"));

        eq_str(decode(&a, DYNAMIC_WITH("'cwd':'/w','workspaceRoots':[]"), SANDBOX_FOR_PROCESS, &c), "");
        place = sandbox_context_place(&c, S("/other"), S("/t"));
        eq_slice(place.cwd, S("/w"));
        eq_u64(place.root_count, 0);

        eq_str(decode(&a, DYNAMIC_WITH("'workspaceRoots':['/v','/u/.']"), SANDBOX_FOR_PROCESS, &c), "");
        place = sandbox_context_place(&c, S("/other"), S("/t"));
        eq_slice(place.cwd, S("/other"));
        eq_u64(place.root_count, 2);
        eq_slice(place.roots[1], S("/u"));

        eq_str(decode(&a, DYNAMIC, SANDBOX_FOR_PROCESS, &c), "");
        place = sandbox_context_place(&c, S("/other"), S("/t"));
        eq_slice(place.cwd, S("/other"));
        eq_u64(place.root_count, 0);
        ok(!sandbox_context_place(&c, (struct slice){ 0 }, S("/t")).cwd.p);
}

TEST(a_uri_without_a_slash_gives_no_root_and_no_cwd)
{
        _arena_ struct arena a = ARENA_INIT;
        struct sandbox_context c;

        eq_str(decode(&a, BESIDE("'cwd':'file:w'"), SANDBOX_FOR_PROCESS, &c), "sandbox cwd is not absolute");
        eq_str(decode(&a, BESIDE("'workspaceRoots':['/w','file:']"), SANDBOX_FOR_PROCESS, &c),
               "sandbox workspace root is not absolute");
}

TEST(workspace_roots_are_bounded)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(1 << 16);
        struct sandbox_context c;

        test_put(&text, S("{'permissions':{'type':'disabled'},'workspaceRoots':['/w'"));
        for (size_t i = 1; i < SANDBOX_ROOTS_MAX; i++)
                test_put(&text, S(",'/w'"));
        size_t n = text.n;
        test_put(&text, S("]}"));
        eq_str(decode(&a, text.p, SANDBOX_FOR_PROCESS, &c), "");
        eq_u64(c.root_count, SANDBOX_ROOTS_MAX);
        buf_truncate(&text, n);
        test_put(&text, S(",'/w']}"));
        eq_str(decode(&a, text.p, SANDBOX_FOR_PROCESS, &c), "a sandbox has at most 256 workspaceRoots");
}
