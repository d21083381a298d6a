/* linux_sandbox_test: which command lines of codex-linux-sandbox are understood, and which are refused. */
#include "proto/linux_sandbox.h"

#include "proto/test_internal.h"
#include "unit.h"

#define MAX_WORDS 16
#define RESTRICTED                                                                                           \
        "{'kind':'restricted','entries':[{'path':{'type':'special','value':{'kind':'root'}},'access':'read'" \
        "},"                                                                                                 \
        "{'path':{'type':'special','value':{'kind':'current_working_directory'}},'access':'write'}]}"
#define HEAD "codex-linux-sandbox", "--sandbox-policy-cwd", "/w"
#define POLICIES "--file-system-sandbox-policy", RESTRICTED, "--network-sandbox-policy", "'restricted'"

#define ROOT "{'type':'special','value':{'kind':'root'}}"
#define ROOT_WRITE "{'path':" ROOT ",'access':'write'}"
#define SECRET_DENIED "{'path':{'type':'path','path':'/s'},'access':'deny'}"
#define FILES(entries, kind) "{'kind':'" kind "','entries':[" entries "]}"
#define NETWORK "--network-sandbox-policy='enabled'"

/* Decodes a command line, in which single quotes stand for double quotes. */
static int decode(struct arena *a, const char *const *words, struct linux_sandbox *ret, struct err *err)
{
        struct slice argv[MAX_WORDS];
        size_t n = 0;

        for (; words[n]; n++) {
                char *copy = arena_dup(a, slice_from_str(words[n]));
                for (char *p = copy; *p; p++)
                        *p = *p == '\'' ? '"' : *p;
                argv[n] = slice_from_str(copy);
        }
        *err = ERR_INIT;
        return linux_sandbox_decode(a, argv, n, ret, err);
}

TEST(the_program_is_known_by_its_name_alone)
{
        ok(linux_sandbox_is_named(S("codex-linux-sandbox")) &&
           linux_sandbox_is_named(S("/a/b/codex-linux-sandbox")));
        ok(!linux_sandbox_is_named(S("codex-linux-sandbox/")) &&
           !linux_sandbox_is_named(S("x-codex-linux-sandbox")));
        ok(!linux_sandbox_is_named(S("")) && !linux_sandbox_is_named(S("/codex-linux-sandbox2")));
}

TEST(arguments_of_a_real_client_are_understood)
{
        static const char *const words[] = { HEAD,
                                             "--command-cwd",
                                             "/w/sub/",
                                             "--sandbox-policy",
                                             "{'type':'workspace-write'}",
                                             POLICIES,
                                             "--",
                                             "/bin/bash",
                                             "-lc",
                                             "true",
                                             NULL };
        _arena_ struct arena a = ARENA_INIT;
        struct linux_sandbox w;
        struct err err;

        eq_int(decode(&a, words, &w, &err), 0);
        eq_str(w.context.cwd.p, "/w");
        eq_str(w.command_cwd.p, "/w/sub");
        eq_u64(w.command_at, 12);
        ok(w.context.profile.kind == PROFILE_MANAGED && !w.context.profile.is_unrestricted);
        ok(!w.context.profile.has_network && w.context.profile.count == 2);
        eq_int(w.context.profile.entries[1].special, SPECIAL_PROJECT_ROOTS);
        eq_int(w.context.profile.entries[1].access, ACCESS_WRITE);
}

TEST(other_ways_to_say_it)
{
        static const struct {
                const char *words[MAX_WORDS];
                enum profile_kind kind;
                bool is_unrestricted, has_network;
        } rows[] = {
                { { HEAD, "--sandbox-policy", "{'type':'read-only'}", "--", "x" },
                  PROFILE_MANAGED,
                  false,
                  false },
                { { HEAD, "--sandbox-policy={'type':'danger-full-access'}", "x" },
                  PROFILE_DISABLED,
                  false,
                  true },
                { { HEAD, "--file-system-sandbox-policy", "{'kind':'unrestricted'}",
                    "--network-sandbox-policy", "'enabled'", "--use-legacy-landlock", "--no-proc", "--",
                    "x" },
                  PROFILE_MANAGED,
                  true,
                  true },
                { { HEAD, "--file-system-sandbox-policy={'kind':'external-sandbox'}",
                    "--network-sandbox-policy='restricted'", "--", "x" },
                  PROFILE_EXTERNAL,
                  false,
                  false },
                { { HEAD, "--permission-profile", "{'type':'disabled'}", "--", "x" },
                  PROFILE_DISABLED,
                  false,
                  true },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct linux_sandbox w = { 0 };
                struct err err;
                (void)decode(&a, rows[i].words, &w, &err);
                eq_str(err.text, "");
                eq_int(w.context.profile.kind, rows[i].kind);
                ok(w.context.profile.is_unrestricted == rows[i].is_unrestricted);
                ok(w.context.profile.has_network == rows[i].has_network);
                eq_str(rows[i].words[w.command_at], "x");
        }
}

TEST(what_cannot_be_mapped_is_refused)
{
        static const char *const rows[][MAX_WORDS] = {
                { "codex-linux-sandbox" },
                { HEAD },
                { HEAD, "--" },
                { HEAD, POLICIES },
                { HEAD, "--", "x" },
                { HEAD, "--sandbox-policy" },
                { "codex-linux-sandbox", POLICIES, "--", "x" },
                { "codex-linux-sandbox", "--sandbox-policy-cwd", "w", POLICIES, "--", "x" },
                { HEAD, "--command-cwd", "file:///w", POLICIES, "--", "x" },
                { HEAD, POLICIES, "--allow-network-for-proxy", "--", "x" },
                { HEAD, POLICIES, "--apply-seccomp-then-exec", "--", "x" },
                { HEAD, POLICIES, "--proxy-route-spec", "{}", "--", "x" },
                { HEAD, POLICIES, "--unknown", "--", "x" },
                { HEAD, POLICIES, "-x", "--", "x" },
                { HEAD, POLICIES, "--sandbox-policy-cwd", "/w", "--", "x" },
                { HEAD, "--file-system-sandbox-policy", RESTRICTED, "--", "x" },
                { HEAD, "--network-sandbox-policy", "'restricted'", "--", "x" },
                { HEAD, "--file-system-sandbox-policy", RESTRICTED, "--sandbox-policy",
                  "{'type':'read-only'}", "--", "x" },
                { HEAD, "--file-system-sandbox-policy", "{'kind':'new'}", "--network-sandbox-policy",
                  "'enabled'", "--", "x" },
                { HEAD, "--file-system-sandbox-policy", "{'kind':'unrestricted','deny':[]}",
                  "--network-sandbox-policy", "'enabled'", "--", "x" },
                { HEAD, "--file-system-sandbox-policy", "{'kind':'restricted','entries':[5]}",
                  "--network-sandbox-policy", "'enabled'", "--", "x" },
                { HEAD, "--file-system-sandbox-policy", "nonsense", "--network-sandbox-policy", "'enabled'",
                  "--", "x" },
                { HEAD, "--file-system-sandbox-policy", RESTRICTED, "--network-sandbox-policy", "'proxy'",
                  "--", "x" },
                { HEAD, "--file-system-sandbox-policy", RESTRICTED, "--network-sandbox-policy", "{}", "--",
                  "x" },
                { HEAD, "--sandbox-policy", "{'type':'read-only','more':1}", "--", "x" },
                { HEAD, "--file-system-sandbox-policy=" FILES(ROOT_WRITE "," SECRET_DENIED, "unrestricted"),
                  NETWORK, "x" },
                { HEAD,
                  "--file-system-sandbox-policy=" FILES(ROOT_WRITE "," SECRET_DENIED, "external-sandbox"),
                  NETWORK, "x" },
                { HEAD,
                  "--file-system-sandbox-policy=" FILES("{'path':" ROOT ",'access':'read','except':['/s']}",
                                                        "restricted"),
                  NETWORK, "x" },
                { HEAD,
                  "--file-system-sandbox-policy=" FILES("{'path':{'type':'special','value':{'kind':'root'},'"
                                                        "except':['/s']},'access':'read'}",
                                                        "restricted"),
                  NETWORK, "x" },
                { HEAD,
                  "--file-system-sandbox-policy=" FILES("{'path':{'type':'special','value':{'kind':'root','"
                                                        "except':['/s']}},'access':'read'}",
                                                        "restricted"),
                  NETWORK, "x" },
                { HEAD, "--permission-profile", "{'type':'disabled'}", POLICIES, "x" },
                { HEAD, "--permission-profile", "{'type':'disabled'}", "--sandbox-policy",
                  "{'type':'read-only'}", "x" },
                { HEAD, "--permission-profile",
                  "{'type':'managed','network':'enabled','file_system':{'type':'restricted','entries':[],'"
                  "except':['/s']}}",
                  "x" },
                { HEAD, "--permission-profile",
                  "{'type':'managed','network':'enabled','file_system':{'type':'unrestricted'},'except':['/"
                  "s']}",
                  "x" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct linux_sandbox w;
                struct err err;
                int r = decode(&a, rows[i], &w, &err);
                if (r != -EINVAL || err.client_code != RPC_INVALID_PARAMS ||
                    strncmp(err.text, "codex-linux-sandbox: ", 21))
                        fail_msg("row %zu: %d %s", i, r, err.text);
        }
}
