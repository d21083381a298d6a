/* process_test: params of the process methods: what is accepted, what is refused and in which words. */
#include "proto/process.h"

#include "base/limits.h"
#include "proto/test_internal.h"
#include "unit.h"

#include <errno.h>
#include <signal.h>

struct row {
        const char *text;
        const char *message; /* NULL: accepted */
};

static void check(params_decode decode, const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                /* The params of process/start are the largest, so this struct has room for those of any method. */
                struct process_start room = { 0 };
                struct err err = ERR_INIT;
                int r = test_decode(&a, decode, rows[i].text, &room, &err);

                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(err.client_code, rows[i].message ? RPC_INVALID_PARAMS : 0);
        }
}

#define START(more) "{'processId':'p','argv':['a'],'cwd':'/w','env':{},'tty':false" more "}"
#define CWD(cwd) "{'processId':'p','argv':['a'],'cwd':" cwd ",'env':{},'tty':false}"
#define POLICY(more) START(",'envPolicy':{" more "}")

/* --- process/start ------------------------------------------------------------------------------------------------ */

TEST(start_names_the_first_missing_member_in_declaration_order)
{
        static const struct row rows[] = {
                { NULL, "invalid type: null, expected struct WireExecParams" },
                { "[]", "invalid type: sequence, expected struct WireExecParams" },
                { "{}", "missing field `processId`" },
                { "{'tty':5,'processId':'p'}", "missing field `argv`" },
                { "{'processId':'p','argv':[]}", "missing field `cwd`" },
                { "{'processId':'p','argv':[],'cwd':'/'}", "missing field `env`" },
                { "{'processId':'p','argv':[],'cwd':'/','env':{}}", "missing field `tty`" },
                { "{'processId':'p','argv':[],'cwd':'/','env':{},'tty':true}", "argv must not be empty" },
        };

        check(process_start_decode, rows, ARRAY_LEN(rows));
}

TEST(start_refuses_members_of_the_wrong_type)
{
        static const struct row rows[] = {
                { START(""), NULL },
                { START(",'pipeStdin':true,'arg0':null,'envPolicy':null,'sandbox':null,'later':[]"), NULL },
                { START(",'pipeStdin':null"), "invalid type: null, expected a boolean" },
                { START(",'arg0':1"), "invalid type: number, expected a string" },
                { START(",'envPolicy':5"), "invalid type: number, expected struct ExecEnvPolicy" },
                { START(",'envPolicy':[]"), "invalid type: sequence, expected struct ExecEnvPolicy" },
                { START(",'metadata':{},'shellSnapshot':null"), NULL },
                { START(",'shellSnapshot':5"), "invalid type: number, expected struct ShellSnapshotRequest" },
                { START(",'shellSnapshot':{'scopeId':'x'}"), "missing field `shell`" },
                { START(",'shellSnapshot':{'scopeId':'x','shell':{'name':'bash'}}"), "missing field `path`" },
                { START(",'shellSnapshot':{'scopeId':'','shell':{'name':'bash','path':'/b'}}"),
                  "shell snapshot scope must be non-empty and at most 256 bytes" },
                { START(",'shellSnapshot':{'scopeId':'x','shell':{'name':'fish','path':'/b'}}"),
                  "shell snapshots are unsupported for shell `fish`" },
                { START(",'shellSnapshot':{'scopeId':'x','shell':{'name':'zsh','path':'/b'}}"), NULL },
                { START(",'metadata':{'threadId':'t','toolCallId':null}"), NULL },
                { START(",'metadata':5"), "invalid type: number, expected struct ExecMetadata" },
                { START(",'metadata':{'threadId':5}"), "invalid type: number, expected a string" },
                { START(",'metadata':{'toolCallId':[]}"), "invalid type: sequence, expected a string" },
        };

        check(process_start_decode, rows, ARRAY_LEN(rows));
}

TEST(start_takes_a_cwd_in_both_spellings)
{
        static const struct row rows[] = {
                { CWD("'/'"), NULL },
                { CWD("'file:///w'"), NULL },
                { CWD("5"), "invalid type: number, expected a string" },
                { CWD("'w'"), "path is not absolute: w" },
                { CWD("''"), "path is not absolute: " },
                { CWD("'http://h/'"), "unsupported path URI scheme `http`" },
                { CWD("'file:///a?b'"), "query parameters are not allowed in path URIs" },
                { CWD("'file:///a%00b'"), "'file:///a%00b' is invalid on 'linux'" },
                { CWD("'file:///C:/x'"), "cwd URI `file:///C:/x` is not valid on this exec-server host: "
                                         "'file:///C:/x' is invalid on 'linux'" },
                { CWD("'file://server/share'"),
                  "cwd URI `file://server/share` is not valid on this exec-server host: "
                  "'file://server/share' is invalid on 'linux'" },
        };

        check(process_start_decode, rows, ARRAY_LEN(rows));
}

TEST(start_requires_every_member_of_an_env_policy)
{
        static const struct row rows[] = {
                { POLICY(""), "missing field `inherit`" },
                { POLICY("'inherit':5"), "invalid type: number, expected string or map" },
                { POLICY("'inherit':'bogus'"),
                  "unknown variant `bogus`, expected one of `core`, `all`, `none`" },
                { POLICY("'inherit':'all'"), "missing field `ignoreDefaultExcludes`" },
                { POLICY("'inherit':'all','ignoreDefaultExcludes':false"), "missing field `exclude`" },
                { POLICY("'inherit':'all','ignoreDefaultExcludes':false,'exclude':[]"),
                  "missing field `set`" },
                { POLICY("'inherit':'all','ignoreDefaultExcludes':false,'exclude':[],'set':{}"),
                  "missing field `includeOnly`" },
                { POLICY("'inherit':'all','ignoreDefaultExcludes':false,'exclude':[],'set':{},"
                         "'includeOnly':[]"),
                  NULL },
        };

        check(process_start_decode, rows, ARRAY_LEN(rows));
}

TEST(start_refuses_networks_and_sandboxes_that_nobody_would_enforce)
{
#define PLAIN "'sandbox':{'permissions':{'type':'disabled'},'windowsSandboxLevel':'disabled'}"
        static const struct row rows[] = {
                { START("," PLAIN), NULL },
                { START(",'enforceManagedNetwork':true"), NULL },
                { START(",'enforceManagedNetwork':false," PLAIN), NULL },
                { START(",'enforceManagedNetwork':true," PLAIN),
                  "managed network enforcement is not available on this executor" },
                { START(",'enforceManagedNetwork':null"), "invalid type: null, expected a boolean" },
                { START(",'sandbox':{}"), "missing field `permissions`" },
                { START(",'sandbox':{'permissions':{'type':'external','network':'restricted'},"
                        "'windowsSandboxLevel':'disabled'}"),
                  NULL },
                { START(",'sandbox':{'permissions':{'type':'disabled'},"
                        "'sandboxOverride':'escalatedSandboxWithRestrictions'}"),
                  "sandbox intent cannot be enforced on this executor" },
        };

        check(process_start_decode, rows, ARRAY_LEN(rows));
}

TEST(start_arrives_whole)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_start in = { 0 };
        struct err err = ERR_INIT;

        eq_int(test_decode(&a, process_start_decode,
                           "{'tty':true,'env':{'A':'1','B':'x\\u0000y'},'cwd':'file:///a%20b/',"
                           "'argv':['sh','a\\u0000b',''],'processId':'','arg0':'','pipeStdin':true,"
                           "'envPolicy':{'inherit':'none','ignoreDefaultExcludes':true,'exclude':['X*'],"
                           "'set':{'K':'v'},'includeOnly':['K','L']}}",
                           &in, &err),
               0);
        eq_slice(in.process_id, S(""));
        eq_u64(in.argc, 3);
        eq_slice(in.argv[1], S("a\0b"));
        eq_slice(in.argv[2], S(""));
        eq_str(in.cwd.p, "/a b");
        eq_u64(in.env_count, 2);
        eq_slice(in.env[0].name, S("A"));
        eq_slice(in.env[1].name, S("B"));
        eq_slice(in.env[1].value, S("x\0y"));
        ok(in.is_tty && in.has_stdin_pipe && in.arg0.p && in.arg0.n == 0 && !in.has_sandbox);
        ok(in.has_env_policy && in.env_policy.ignores_default_excludes);
        eq_int(in.env_policy.inherit, ENV_INHERIT_NONE);
        eq_u64(in.env_policy.exclude_count, 1);
        eq_slice(in.env_policy.set[0].value, S("v"));
        eq_slice(in.env_policy.include_only[1], S("L"));
}

/* --- members that only this server knows -------------------------------------------------------------------------- */

#define IO(io) "{'processId':'p','argv':['a'],'cwd':'/w','env':{},'io':" io "}"
#define LIMITS(members) START(",'limits':{" members "}")

TEST(io_replaces_tty_and_pipe_stdin)
{
        static const struct {
                const char *text;
                bool is_tty, has_stdin_pipe;
                uint16_t rows, cols;
        } rows[] = {
                { IO("{'type':'pty','rows':50,'cols':132}"), true, false, 50, 132 },
                { IO("{'type':'pty','rows':65535,'cols':1}"), true, false, 65535, 1 },
                { IO("{'type':'pty'}"), true, false, 0, 0 },
                { IO("{'type':'pty','rows':null,'cols':7}"), true, false, 0, 7 },
                { IO("{'type':'pty','stdin':5}"), true, false, 0, 0 }, /* `stdin` is for `pipe` only */
                { IO("{'type':'pipe','stdin':'open'}"), false, true, 0, 0 },
                { IO("{'type':'pipe','stdin':'closed','rows':0}"), false, false, 0, 0 },
                /* `io` overrides `tty` and `pipeStdin` */
                { START(",'pipeStdin':true,'io':{'type':'pty','rows':3,'cols':4}"), true, false, 3, 4 },
                { START(",'pipeStdin':true,'io':{'type':'pipe','stdin':'closed'}"), false, false, 0, 0 },
                { START(",'pipeStdin':false,'io':{'type':'pipe','stdin':'open'}"), false, true, 0, 0 },
                { START(",'pipeStdin':true,'io':null"), false, true, 0, 0 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_start_decode, rows[i].text, &in, &err), 0);
                eq_int(in.is_tty, rows[i].is_tty);
                eq_int(in.has_stdin_pipe, rows[i].has_stdin_pipe);
                eq_int(in.rows, rows[i].rows);
                eq_int(in.cols, rows[i].cols);
        }
}

TEST(io_is_refused_when_it_is_not_right)
{
        static const struct row rows[] = {
                { IO("null"), "missing field `tty`" },
                { IO("{}"), "missing field `type`" },
                { IO("{'type':'file'}"), "type: unknown variant `file`, expected `pipe` or `pty`" },
                { IO("{'type':'pipe'}"), "missing field `stdin`" },
                { IO("{'type':'pipe','stdin':true}"),
                  "stdin: invalid type: boolean `true`, expected string or map" },
                { IO("{'type':'pipe','stdin':'null'}"),
                  "stdin: unknown variant `null`, expected `closed` or `open`" },
                { IO("{'type':'pty','rows':0,'cols':80}"), "rows and cols must be positive" },
                { IO("{'type':'pty','rows':24,'cols':0}"), "rows and cols must be positive" },
                { START(",'io':{'type':'pty','rows':0}"), "rows and cols must be positive" },
        };
        static const char *const wrong[] = {
                IO("5"),
                IO("'pty'"),
                IO("[]"),
                IO("{'type':'pty','rows':65536}"),
                IO("{'type':'pty','cols':-1}"),
                IO("{'type':'pty','rows':'24'}"),
                IO("{'type':'pty','rows':1.5}"),
        };

        check(process_start_decode, rows, ARRAY_LEN(rows));
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_start_decode, wrong[i], &in, &err), -EINVAL);
                eq_int(err.client_code, RPC_INVALID_PARAMS);
        }
}

TEST(kind_is_direct_unless_it_says_prepared)
{
        static const struct {
                const char *text;
                bool is_prepared;
        } rows[] = {
                { START(""), false },
                { START(",'kind':null"), false },
                { START(",'kind':'direct'"), false },
                { START(",'kind':'prepared'"), true },
                { START(",'kind':'prepared','sandbox':null"), true },
        };
        static const struct row refused[] = {
                { START(",'kind':'other'"),
                  "kind: unknown variant `other`, expected `direct` or `prepared`" },
                { START(",'kind':5"), "kind: invalid type: number, expected string or map" },
                { START(",'kind':'prepared'," PLAIN),
                  "a prepared command has its sandbox already: `sandbox` must be absent" },
        };

        check(process_start_decode, refused, ARRAY_LEN(refused));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_start_decode, rows[i].text, &in, &err), 0);
                eq_int(in.is_prepared, rows[i].is_prepared);
        }
}

TEST(limits_are_positive_numbers_each_on_its_own)
{
        static const struct row rows[] = {
                { LIMITS(""), NULL },
                { START(",'limits':null"), NULL },
                { LIMITS("'wallMs':1,'later':[]"), NULL },
                { LIMITS("'wallMs':null,'silenceMs':null"), NULL },
                { LIMITS("'wallMs':9223372036854775807,'memoryBytes':9223372036854775807"), NULL },
                { LIMITS("'cpuSeconds':2147483647,'openFiles':2147483647,'processes':2147483647"), NULL },
                { LIMITS("'wallMs':0"), "wallMs: out of range" },
                { LIMITS("'silenceMs':0"), "silenceMs: out of range" },
                { LIMITS("'cpuSeconds':0"), "cpuSeconds: out of range" },
                { LIMITS("'memoryBytes':0"), "memoryBytes: out of range" },
                { LIMITS("'openFiles':0"), "openFiles: out of range" },
                { LIMITS("'processes':0"), "processes: out of range" },
                { LIMITS("'fileBytes':0"), "fileBytes: out of range" },
                { LIMITS("'wallMs':9223372036854775808"), "wallMs: out of range" },
                { LIMITS("'cpuSeconds':2147483648"), "cpuSeconds: out of range" },
                { LIMITS("'openFiles':2147483648"), "openFiles: out of range" },
                { LIMITS("'wallMs':-1"), "wallMs: invalid number" },
                { LIMITS("'silenceMs':1.5"), "silenceMs: invalid number" },
                { LIMITS("'fileBytes':'1'"), "fileBytes: invalid type: string \"1\", expected u64" },
        };
        static const char *const wrong[] = { START(",'limits':5"), START(",'limits':[]"),
                                             START(",'limits':'1'") };

        check(process_start_decode, rows, ARRAY_LEN(rows));
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_start_decode, wrong[i], &in, &err), -EINVAL);
                eq_int(err.client_code, RPC_INVALID_PARAMS);
        }
}

TEST(limits_arrive_whole)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_start in = { 0 }, none = { 0 }, empty = { 0 };
        struct err err = ERR_INIT;

        eq_int(test_decode(&a, process_start_decode,
                           LIMITS("'wallMs':1,'silenceMs':2,'cpuSeconds':3,'memoryBytes':4,'openFiles':5,"
                                  "'processes':6,'fileBytes':7"),
                           &in, &err),
               0);
        ok(in.has_limits);
        eq_u64(in.limits.wall_ms, 1);
        eq_u64(in.limits.silence_ms, 2);
        eq_u64(in.limits.cpu_seconds, 3);
        eq_u64(in.limits.memory_bytes, 4);
        eq_u64(in.limits.open_files, 5);
        eq_u64(in.limits.processes, 6);
        eq_u64(in.limits.file_bytes, 7);
        eq_int(test_decode(&a, process_start_decode, START(""), &none, &err), 0);
        ok(!none.has_limits);
        eq_int(test_decode(&a, process_start_decode, LIMITS("'wallMs':null"), &empty, &err), 0);
        ok(!empty.has_limits && empty.limits.wall_ms == 0);
}

/* Returns `{head}aaa…{tail}` with n letters. */
static char *with_letters(struct arena *a, const char *head, size_t n, const char *tail)
{
        size_t before = strlen(head), after = strlen(tail);
        char *text = arena_alloc(a, before + n + after + 1);

        memcpy(text, head, before);
        memset(text + before, 'a', n);
        memcpy(text + before + n, tail, after + 1);
        return text;
}

TEST(long_ids_are_refused)
{
        static const struct {
                params_decode *decode;
                const char *head, *tail, *message;
                size_t max;
        } rows[] = {
                { process_terminate_decode, "{'processId':'", "'}", "processId must be at most 1024 bytes",
                  LIMIT_PROCESS_ID_BYTES },
                { process_start_decode, "{'processId':'", "','argv':['a'],'cwd':'/','env':{},'tty':true}",
                  "processId must be at most 1024 bytes", LIMIT_PROCESS_ID_BYTES },
                { process_write_decode, "{'processId':'','chunk':'','writeId':'", "'}",
                  "writeId must be at most 256 bytes", LIMIT_WRITE_ID_BYTES },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                for (size_t over = 0; over < 2; over++) {
                        _arena_ struct arena a = ARENA_INIT;
                        struct process_start room = { 0 };
                        struct err err = ERR_INIT;
                        const char *text = with_letters(&a, rows[i].head, rows[i].max + over, rows[i].tail);
                        eq_int(test_decode(&a, rows[i].decode, text, &room, &err), over ? -EINVAL : 0);
                        eq_str(err.text, over ? rows[i].message : "");
                }
        }
}

TEST(patterns_that_would_cost_too_much_are_refused)
{
        struct process_start room = { 0 };
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;

        /* One long pattern costs too much, whatever the names are. */
        char *policy = with_letters(&a,
                                    "{'processId':'p','argv':['a'],'cwd':'/','env':{},'tty':true,'envPolicy':"
                                    "{'inherit':'all','ignoreDefaultExcludes':true,'set':{},'includeOnly':[],"
                                    "'exclude':['*",
                                    (size_t)64 * KIB, "']}}");
        eq_int(test_decode(&a, process_start_decode, policy, &room, &err), -EINVAL);
        eq_str(err.text, "envPolicy has too many patterns");

        /* A pattern of 600 letters costs too much together with a very long name; a pattern of 10 letters does not. */
        char *left = with_letters(&a,
                                  "{'processId':'p','argv':['a'],'cwd':'/','env':{},'tty':true,'envPolicy':"
                                  "{'inherit':'none','ignoreDefaultExcludes':true,'exclude':[],'set':{'",
                                  (size_t)64 * KIB, "':''},'includeOnly':['*");
        err = ERR_INIT;
        eq_int(test_decode(&a, process_start_decode, with_letters(&a, left, 600, "']}}"), &room, &err),
               -EINVAL);
        eq_str(err.text, "envPolicy has too many patterns");
        err = ERR_INIT;
        eq_int(test_decode(&a, process_start_decode, with_letters(&a, left, 10, "']}}"), &room, &err), 0);
}

/* --- the other methods -------------------------------------------------------------------------------------------- */

TEST(read_takes_numbers_or_null)
{
        static const struct row rows[] = {
                { "{}", "missing field `processId`" },
                { "['nope',null,null,null]", "invalid type: sequence, expected struct ReadParams" },
                { "{'processId':'p'}", NULL },
                { "{'processId':'p','afterSeq':null,'maxBytes':null,'waitMs':null}", NULL },
                { "{'processId':'p','afterSeq':-1}", "invalid number" },
                { "{'processId':'p','maxBytes':1.5}", "invalid number" },
                { "{'processId':'p','waitMs':1e2}", "invalid number" },
                { "{'processId':'p','waitMs':'1'}", "invalid type: string \"1\", expected u64" },
                { "{'processId':'p','afterSeq':18446744073709551616}", "invalid number" },
        };

        check(process_read_decode, rows, ARRAY_LEN(rows));
}

TEST(read_clamps_the_wait_only)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_read in = { 0 };
        struct err err = ERR_INIT;

        eq_int(test_decode(&a, process_read_decode,
                           "{'processId':'p','waitMs':18446744073709551615,'maxBytes':0,"
                           "'afterSeq':18446744073709551615}",
                           &in, &err),
               0);
        eq_u64(in.wait_ms, LIMIT_WAIT_MS);
        eq_u64(in.after_seq, UINT64_MAX);
        ok(in.has_max_bytes && in.max_bytes == 0);

        struct process_read none = { 0 };
        eq_int(test_decode(&a, process_read_decode, "{'processId':'p'}", &none, &err), 0);
        ok(!none.has_after_seq && !none.has_max_bytes && !none.has_wait_ms);
        eq_u64(none.wait_ms, 0);
}

TEST(write_takes_strict_base64_and_an_optional_id)
{
        static const struct row rows[] = {
                { "{'processId':'p'}", "missing field `chunk`" },
                { "{'processId':'p','chunk':''}", NULL },
                { "{'processId':'p','chunk':'aGVsbG8K','writeId':'w'}", NULL },
                { "{'processId':'p','chunk':'QQ'}", "Invalid padding" },
                { "{'processId':'p','chunk':'QQ==\\n'}", "Invalid symbol 10, offset 4." },
                { "{'processId':'p','chunk':'QQ==','writeId':null}",
                  "invalid type: null, expected a string" },
                { "{'processId':'p','chunk':'QQ==','writeId':''}", "writeId must not be empty" },
                { "{'processId':'p','chunk':'QQ==','writeId':'a\\u0000b'}",
                  "writeId must not contain a nul byte" },
        };

        check(process_write_decode, rows, ARRAY_LEN(rows));

        _arena_ struct arena a = ARENA_INIT;
        struct process_write in = { 0 };
        struct err err = ERR_INIT;
        eq_int(test_decode(&a, process_write_decode, "{'processId':'p','chunk':'aGVsbG8K'}", &in, &err), 0);
        eq_slice(in.bytes, S("hello\n"));
        ok(!in.write_id.p);
}

#define SIGNAL(signal) "{'processId':'p','signal':" signal "}"
#define VARIANTS "expected one of `interrupt`, `terminate`, `kill`, `hangup`, `quit`, `user1`, `user2`"

TEST(signal_takes_a_name_or_a_number)
{
        static const struct row rows[] = {
                { "{'processId':'p'}", "missing field `signal`" },
                { "{'signal':'interrupt'}", "missing field `processId`" },
                { SIGNAL("'x'"), "unknown variant `x`, " VARIANTS },
                { SIGNAL("'SIGINT'"), "unknown variant `SIGINT`, " VARIANTS },
                { SIGNAL("'2'"), "unknown variant `2`, " VARIANTS },
                { SIGNAL("null"), "invalid type: null, expected string or map" },
                { SIGNAL("true"), "invalid type: boolean `true`, expected string or map" },
                { SIGNAL("0"), "signal: must be between 1 and 64" },
                { SIGNAL("65"), "signal: must be between 1 and 64" },
                { SIGNAL("18446744073709551615"), "signal: must be between 1 and 64" },
                { SIGNAL("4294967298"),
                  "signal: must be between 1 and 64" }, /* would be 2 if it were cut to 32 bits */
                { SIGNAL("-2"), "invalid number" },
                { SIGNAL("2.0"), "invalid number" },
        };

        check(process_signal_decode, rows, ARRAY_LEN(rows));
}

TEST(signals_have_their_numbers)
{
        static const struct {
                const char *text;
                int signo;
        } rows[] = {
                { SIGNAL("'interrupt'"), SIGINT }, { SIGNAL("'terminate'"), SIGTERM },
                { SIGNAL("'kill'"), SIGKILL },     { SIGNAL("'hangup'"), SIGHUP },
                { SIGNAL("'quit'"), SIGQUIT },     { SIGNAL("'user1'"), SIGUSR1 },
                { SIGNAL("'user2'"), SIGUSR2 },    { SIGNAL("1"), 1 },
                { SIGNAL("19"), SIGSTOP },         { SIGNAL("64"), 64 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_signal in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_signal_decode, rows[i].text, &in, &err), 0);
                eq_int(in.signo, rows[i].signo);
                eq_int(in.scope, SCOPE_GROUP); /* the default, because no request here has a scope */
        }
}

TEST(signal_has_a_scope)
{
        static const struct row rows[] = {
                { "{'processId':'p','signal':2,'scope':null}", NULL },
                { "{'processId':'p','signal':2,'scope':'all'}",
                  "scope: unknown variant `all`, expected one of `group`, `process`, `tree`" },
                { "{'processId':'p','signal':2,'scope':1}",
                  "scope: invalid type: number, expected string or map" },
        };
        static const char *const names[] = {
                [SCOPE_GROUP] = "group", [SCOPE_PROCESS] = "process", [SCOPE_TREE] = "tree"
        };

        check(process_signal_decode, rows, ARRAY_LEN(rows));
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_signal in = { 0 };
                struct err err = ERR_INIT;
                const char *text =
                        arena_printf(&a, "{'processId':'p','signal':'quit','scope':'%s'}", names[i]);
                eq_int(test_decode(&a, process_signal_decode, text, &in, &err), 0);
                eq_int(in.scope, i);
        }
}

#define MODE(mode) "{'processId':'p','mode':" mode "}"

TEST(terminate_needs_an_id_and_a_right_mode_or_none)
{
        static const struct row rows[] = {
                { "{}", "missing field `processId`" },
                { NULL, "invalid type: null, expected struct TerminateParams" },
                { "{'processId':''}", NULL },
                { MODE("null"), NULL },
                { MODE("{'type':'force'}"), NULL },
                { MODE("{'type':'force','timeoutMs':'later'}"),
                  NULL }, /* `timeoutMs` is ignored unless the type is graceful */
                { MODE("{'type':'graceful','timeoutMs':0}"), NULL },
                { MODE("{'type':'graceful','timeoutMs':60000}"), NULL },
                { MODE("{'type':'graceful','timeoutMs':60001}"), "timeoutMs: must be at most 60000" },
                { MODE("{'type':'graceful','timeoutMs':18446744073709551615}"),
                  "timeoutMs: must be at most 60000" },
                { MODE("{'type':'graceful'}"), "missing field `timeoutMs`" },
                { MODE("{}"), "missing field `type`" },
                { MODE("{'type':'kind'}"), "type: unknown variant `kind`, expected `force` or `graceful`" },
        };

        check(process_terminate_decode, rows, ARRAY_LEN(rows));
}

TEST(terminate_names_what_has_the_wrong_type)
{
        static const char *const texts[] = {
                MODE("5"),
                MODE("'force'"),
                MODE("[]"),
                MODE("{'type':5}"),
                MODE("{'type':'graceful','timeoutMs':'1'}"),
                MODE("{'type':'graceful','timeoutMs':-1}"),
                MODE("{'type':'graceful','timeoutMs':1.5}"),
                MODE("{'type':'graceful','timeoutMs':null}"),
        };
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_terminate in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_terminate_decode, texts[i], &in, &err), -EINVAL);
                eq_int(err.client_code, RPC_INVALID_PARAMS);
        }
}

TEST(terminate_arrives_whole)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_terminate plain = { 0 }, force = { 0 }, graceful = { 0 };
        struct err err = ERR_INIT;

        eq_int(test_decode(&a, process_terminate_decode, "{'processId':'p'}", &plain, &err), 0);
        ok(!plain.has_mode && !plain.is_graceful);
        eq_int(test_decode(&a, process_terminate_decode, MODE("{'type':'force'}"), &force, &err), 0);
        ok(force.has_mode && !force.is_graceful && force.timeout_ms == 0);
        eq_int(test_decode(&a, process_terminate_decode, MODE("{'type':'graceful','timeoutMs':1234}"),
                           &graceful, &err),
               0);
        ok(graceful.has_mode && graceful.is_graceful);
        eq_u64(graceful.timeout_ms, 1234);
        eq_slice(graceful.process_id, S("p"));
}
