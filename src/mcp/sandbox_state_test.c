#include "mcp/sandbox_state.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "unit.h"

/* Reads params, with ' for ". Returns the profile, or "refused"; and the roots, each behind a blank. */
static const char *state_of(struct arena *a, const char *text)
{
        _buf_ struct buf json = BUF_INIT(4096);
        struct json_doc doc;
        struct json_error bad;
        struct sandbox_state state;
        must(buf_append(&json, slice_from_str(text)) == 0);
        for (size_t i = 0; i < json.n; i++)
                if (json.p[i] == '\'')
                        json.p[i] = '"';
        ok(json_parse(a, buf_slice(&json), &doc, &bad) == 0);
        if (!sandbox_state_read(a, &doc, json_root(&doc), &state))
                return "refused";
        const char *seen = strstr(state.profile, "\"disabled\"")   ? "open"
                           : strstr(state.profile, "\"external\"") ? "external"
                           : strstr(state.profile, "\"write\"")    ? "write"
                                                                   : "read";
        for (const char *const *root = state.roots; *root; root++)
                seen = arena_printf(a, "%s %s", seen, *root);
        return strstr(state.profile, "\"enabled\"") && strcmp(seen, "open /w") != 0
                       ? arena_printf(a, "%s network", seen)
                       : seen;
}

TEST(each_policy_is_a_profile)
{
        static const struct {
                const char *policy, *seen;
        } rows[] = {
                { "{'type':'read-only'}", "read /w" },
                { "{'type':'danger-full-access'}", "open /w" },
                { "{'type':'workspace-write'}", "write /w" },
                { "{'type':'workspace-write','writable_roots':['/a','/b'],'network_access':true,"
                  "'exclude_tmpdir_env_var':true,'exclude_slash_tmp':true}",
                  "write /w /a /b network" },
                { "{'type':'workspaceWrite','writableRoots':['/a']}", "write /w /a" },
                { "{'type':'external-sandbox'}", "external /w" },
                { "{'type':'none'}", "refused" },
                { "{'type':'read-only','more':1}", "refused" },
                { "7", "refused" },
                { "{'type':'workspace-write','writable_roots':['a']}", "refused" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(state_of(&a,
                                arena_printf(&a, "{'sandboxPolicy':%s,'sandboxCwd':'/w'}", rows[i].policy)),
                       rows[i].seen);
        }
}

TEST(the_other_members_are_checked)
{
        static const char *const good[] = { "'codexLinuxSandboxExe':null", "'codexLinuxSandboxExe':'/x'",
                                            "'useLinuxSandboxBwrap':true", "'later':7" },
                                 *const bad[] = { "'codexLinuxSandboxExe':7", "'useLinuxSandboxBwrap':1" },
                                 *const directories[] = { "'w'", "7", "''", "'/w\\u0000'" };
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(state_of(&a,
                                arena_printf(&a,
                                             "{'sandboxPolicy':{'type':'read-only'},'sandboxCwd':'/w',%s}",
                                             good[i])),
                       "read /w");
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(state_of(&a,
                                arena_printf(&a,
                                             "{'sandboxPolicy':{'type':'read-only'},'sandboxCwd':'/w',%s}",
                                             bad[i])),
                       "refused");
        }
        for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(state_of(&a, arena_printf(&a, "{'sandboxPolicy':{'type':'read-only'},'sandboxCwd':%s}",
                                                 directories[i])),
                       "refused");
        }
        _arena_ struct arena a = ARENA_INIT;
        eq_str(state_of(&a, "{'sandboxCwd':'/w'}"), "refused");
        eq_str(state_of(&a, "{'x':1}"), "refused");
        eq_str(state_of(&a, "[]"), "refused");
}
