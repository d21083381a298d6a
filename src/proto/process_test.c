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
                struct process_start room = { 0 }; /* the largest of them */
                struct err err = ERR_INIT;
                int r = test_decode(&a, decode, rows[i].text, &room, &err);

                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(err.rpc, rows[i].message ? RPC_INVALID_PARAMS : 0);
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
                { START(",'metadata':{},'shellSnapshot':5"), NULL },
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
                { START(",'managedNetwork':null,'networkProxy':null"), NULL },
                { START(",'managedNetwork':{'loopbackPorts':[0,65535],'allowLocalBinding':true}"), NULL },
                { START(",'managedNetwork':{}"), NULL },
                { START(",'managedNetwork':5"),
                  "invalid type: number, expected struct ManagedNetworkSandboxContext" },
                { START(",'managedNetwork':{'loopbackPorts':[65536]}"), "invalid number" },
                { START(",'managedNetwork':{'loopbackPorts':['a']}"),
                  "invalid type: string \"a\", expected u16" },
                { START(",'managedNetwork':{'allowLocalBinding':1}"),
                  "invalid type: number, expected a boolean" },
                { START(",'networkProxy':{}"), "networkProxy is not supported by this executor" },
                { START(",'sandbox':{}"), "missing field `permissions`" },
                { START(",'sandbox':{'permissions':{'type':'external','network':'restricted'},"
                        "'windowsSandboxLevel':'disabled'}"),
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
                           "{'tty':true,'env':{'A':'1','B=C':'x\\u0000y'},'cwd':'file:///a%20b/',"
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
        eq_slice(in.env[1].name, S("B=C"));
        eq_slice(in.env[1].value, S("x\0y"));
        ok(in.tty && in.pipe_stdin && in.arg0.p && in.arg0.n == 0 && !in.has_sandbox);
        ok(in.has_env_policy && in.env_policy.ignore_default_excludes);
        eq_int(in.env_policy.inherit, ENV_INHERIT_NONE);
        eq_u64(in.env_policy.exclude_count, 1);
        eq_slice(in.env_policy.set[0].value, S("v"));
        eq_slice(in.env_policy.include_only[1], S("L"));
}

/* `{head}aaa…{tail}` with n letters. */
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
                params_decode decode;
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

        /* A long pattern alone. */
        char *policy = with_letters(&a,
                                    "{'processId':'p','argv':['a'],'cwd':'/','env':{},'tty':true,'envPolicy':"
                                    "{'inherit':'all','ignoreDefaultExcludes':true,'set':{},'includeOnly':[],"
                                    "'exclude':['*",
                                    (size_t)64 * KIB, "']}}");
        eq_int(test_decode(&a, process_start_decode, policy, &room, &err), -EINVAL);
        eq_str(err.text, "envPolicy has too many patterns");

        /* A pattern of allowed length against names of great length. */
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

/* --- the others --------------------------------------------------------------------------------------------------- */

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

TEST(signal_knows_interrupt_alone)
{
        static const struct row rows[] = {
                { "{'processId':'p'}", "missing field `signal`" },
                { "{'processId':'p','signal':'interrupt'}", NULL },
                { "{'processId':'p','signal':'x'}", "unknown variant `x`, expected `interrupt`" },
                { "{'processId':'p','signal':2}", "invalid type: number, expected string or map" },
        };

        check(process_signal_decode, rows, ARRAY_LEN(rows));

        _arena_ struct arena a = ARENA_INIT;
        struct process_signal in = { 0 };
        struct err err = ERR_INIT;
        eq_int(test_decode(&a, process_signal_decode, rows[1].text, &in, &err), 0);
        eq_int(in.signo, SIGINT);
}

TEST(terminate_needs_an_id)
{
        static const struct row rows[] = {
                { "{}", "missing field `processId`" },
                { NULL, "invalid type: null, expected struct TerminateParams" },
                { "{'processId':''}", NULL },
                { "{'processId':'p','mode':5}", NULL }, /* unknown yet, so ignored */
        };

        check(process_terminate_decode, rows, ARRAY_LEN(rows));
}
