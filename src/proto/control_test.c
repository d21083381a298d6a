/* control_test: params of the methods that only this server has: what is accepted, what is refused and in which words. */
#include "proto/control.h"

#include "base/limits.h"
#include "proto/process.h"
#include "proto/test_internal.h"
#include "unit.h"

#include <errno.h>

struct row {
        const char *text;
        const char *message; /* NULL: accepted */
};

/* Room for the params of any of these methods. */
union params {
        struct process_close_stdin close_stdin;
        struct process_resize resize;
        struct process_wait wait;
        struct process_snapshot snapshot;
        struct process_list list;
};

static void check(params_decode *decode, const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                union params room = { 0 };
                struct err err = ERR_INIT;
                int r = test_decode(&a, decode, rows[i].text, &room, &err);

                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(err.client_code, rows[i].message ? RPC_INVALID_PARAMS : 0);
        }
}

TEST(close_stdin_needs_an_id)
{
        static const struct row rows[] = {
                { "{'processId':'p'}", NULL },
                { "{'processId':'','more':1}", NULL },
                { "{}", "missing field `processId`" },
                { NULL, "invalid type: null, expected struct CloseStdinParams" },
                { "[]", "invalid type: sequence, expected struct CloseStdinParams" },
                { "{'processId':5}", "invalid type: number, expected a string" },
                { "{'processId':null}", "invalid type: null, expected a string" },
        };

        check(process_close_stdin_decode, rows, ARRAY_LEN(rows));
}

TEST(resize_needs_two_positive_numbers)
{
        static const struct row rows[] = {
                { "{'processId':'p','rows':1,'cols':1}", NULL },
                { "{'processId':'p','rows':65535,'cols':65535}", NULL },
                { "{'rows':1,'cols':1}", "missing field `processId`" },
                { "{'processId':'p','cols':1}", "missing field `rows`" },
                { "{'processId':'p','rows':1}", "missing field `cols`" },
                { "{'processId':'p','rows':0,'cols':1}", "rows and cols must be positive" },
                { "{'processId':'p','rows':1,'cols':0}", "rows and cols must be positive" },
                { "{'processId':'p','rows':65536,'cols':1}", "invalid number" },
                { "{'processId':'p','rows':-1,'cols':1}", "invalid number" },
                { "{'processId':'p','rows':1,'cols':1.5}", "invalid number" },
                { "{'processId':'p','rows':null,'cols':1}", "invalid type: null, expected u16" },
                { "{'processId':'p','rows':1,'cols':'1'}", "invalid type: string \"1\", expected u16" },
        };
        _arena_ struct arena a = ARENA_INIT;
        struct process_resize in = { 0 };
        struct err err = ERR_INIT;

        check(process_resize_decode, rows, ARRAY_LEN(rows));
        eq_int(test_decode(&a, process_resize_decode, "{'cols':132,'rows':50,'processId':'p'}", &in, &err),
               0);
        eq_slice(in.process_id, S("p"));
        eq_int(in.rows, 50);
        eq_int(in.cols, 132);
}

TEST(wait_names_what_is_wrong)
{
        static const struct row rows[] = {
                { "{'processId':'p'}", NULL },
                { "{'processId':'p','waitMs':null,'until':null,'drainMs':null}", NULL },
                { "{'waitMs':1}", "missing field `processId`" },
                { NULL, "invalid type: null, expected struct WaitParams" },
                { "{'processId':'p','waitMs':-1}", "waitMs: invalid number" },
                { "{'processId':'p','waitMs':'1'}", "waitMs: invalid type: string \"1\", expected u64" },
                { "{'processId':'p','drainMs':0.5}", "drainMs: invalid number" },
                { "{'processId':'p','until':'ended'}",
                  "until: unknown variant `ended`, expected `closed` or `exited`" },
                { "{'processId':'p','until':5}", "until: invalid type: number, expected string or map" },
        };

        check(process_wait_decode, rows, ARRAY_LEN(rows));
}

TEST(wait_waits_long_for_the_close_unless_told_otherwise)
{
        static const struct {
                const char *text;
                bool waits_for_exit, has_drain_ms;
                uint64_t wait_ms, drain_ms;
        } rows[] = {
                { "{'processId':'p'}", false, false, LIMIT_WAIT_MS, 0 },
                { "{'processId':'p','waitMs':null,'until':'closed'}", false, false, LIMIT_WAIT_MS, 0 },
                { "{'processId':'p','waitMs':0,'until':'exited'}", true, false, 0, 0 },
                { "{'processId':'p','waitMs':600000,'drainMs':0}", false, true, 600000, 0 },
                { "{'processId':'p','waitMs':600001,'drainMs':600001}", false, true, 600000, 600000 },
                { "{'processId':'p','waitMs':18446744073709551615,'drainMs':18446744073709551615}", false,
                  true, LIMIT_WAIT_MS, LIMIT_WAIT_MS },
                { "{'processId':'p','drainMs':250,'waitMs':17}", false, true, 17, 250 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_wait in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_wait_decode, rows[i].text, &in, &err), 0);
                eq_slice(in.process_id, S("p"));
                eq_int(in.waits_for_exit, rows[i].waits_for_exit);
                eq_int(in.has_drain_ms, rows[i].has_drain_ms);
                eq_u64(in.wait_ms, rows[i].wait_ms);
                eq_u64(in.drain_ms, rows[i].drain_ms);
        }
}

TEST(snapshot_takes_a_budget)
{
        static const struct row rows[] = {
                { "{'processId':'p'}", NULL },
                { "{'processId':'p','maxBytes':null}", NULL },
                { "{'maxBytes':1}", "missing field `processId`" },
                { "{'processId':'p','maxBytes':-1}", "maxBytes: invalid number" },
                { "{'processId':'p','maxBytes':true}",
                  "maxBytes: invalid type: boolean `true`, expected u64" },
        };
        _arena_ struct arena a = ARENA_INIT;
        struct process_snapshot none = { 0 }, zero = { 0 };
        struct err err = ERR_INIT;

        check(process_snapshot_decode, rows, ARRAY_LEN(rows));
        eq_int(test_decode(&a, process_snapshot_decode, "{'processId':'p'}", &none, &err), 0);
        ok(!none.has_max_bytes);
        eq_int(test_decode(&a, process_snapshot_decode, "{'processId':'p','maxBytes':0}", &zero, &err), 0);
        ok(zero.has_max_bytes && zero.max_bytes == 0);
}

TEST(a_list_is_of_this_session_unless_told_otherwise)
{
        static const struct {
                const char *text;
                const char *process_id; /* NULL: all */
                bool is_server_wide;
        } rows[] = {
                { NULL, NULL, false },
                { "null", NULL, false },
                { "{}", NULL, false },
                { "{'processId':null,'scope':null,'more':1}", NULL, false },
                { "{'processId':''}", "", false },
                { "{'processId':'p','scope':'session'}", "p", false },
                { "{'scope':'server'}", NULL, true },
                { "{'scope':'server','processId':'p'}", "p", true },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_list in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, process_list_decode, rows[i].text, &in, &err), 0);
                eq_int(in.process_id.p != NULL, rows[i].process_id != NULL);
                if (rows[i].process_id)
                        eq_slice(in.process_id, slice_from_str(rows[i].process_id));
                eq_int(in.is_server_wide, rows[i].is_server_wide);
        }
}

TEST(lists_name_what_is_wrong)
{
        static const struct row processes[] = {
                { "[]", "invalid type: sequence, expected struct ListParams" },
                { "5", "invalid type: number, expected struct ListParams" },
                { "{'processId':5}", "processId: invalid type: number, expected a string" },
                { "{'scope':'all'}", "scope: unknown variant `all`, expected `session` or `server`" },
                { "{'scope':1}", "scope: invalid type: number, expected string or map" },
                { "{'scope':'session','sessionId':'s'}", NULL },
                { "{'scope':'server','sessionId':null}", NULL },
                { "{'scope':'server','sessionId':'s'}", "sessionId: must be absent with the scope `server`" },
        };
        static const struct row sessions[] = {
                { NULL, NULL },
                { "null", NULL },
                { "{}", NULL },
                { "{'later':1}", NULL },
                { "[]", "invalid type: sequence, expected struct SessionListParams" },
                { "'x'", "invalid type: string \"x\", expected struct SessionListParams" },
        };

        check(process_list_decode, processes, ARRAY_LEN(processes));
        check(session_list_decode, sessions, ARRAY_LEN(sessions));
}

TEST(six_methods_take_the_id_of_another_session)
{
        static const struct {
                params_decode *decode;
                size_t at;
        } methods[] = {
                { process_read_decode, offsetof(struct process_read, session_id) },
                { process_signal_decode, offsetof(struct process_signal, session_id) },
                { process_terminate_decode, offsetof(struct process_terminate, session_id) },
                { process_wait_decode, offsetof(struct process_wait, session_id) },
                { process_snapshot_decode, offsetof(struct process_snapshot, session_id) },
                { process_list_decode, offsetof(struct process_list, session_id) },
        };
        static const struct {
                const char *value, *id; /* id NULL: none */
                const char *message;    /* NULL: accepted */
        } rows[] = {
                { "'s-1'", "s-1", NULL },
                { "''", "", NULL },
                { "null", NULL, NULL },
                { "5", NULL, "sessionId: invalid type: number, expected a string" },
                { "true", NULL, "sessionId: invalid type: boolean `true`, expected a string" },
                { "['s']", NULL, "sessionId: invalid type: sequence, expected a string" },
        };
        for (size_t i = 0; i < ARRAY_LEN(methods) * ARRAY_LEN(rows); i++) {
                size_t m = i / ARRAY_LEN(rows), n = i % ARRAY_LEN(rows);
                _arena_ struct arena a = ARENA_INIT;
                char room[256] = { 0 };
                struct slice id;
                struct err err = ERR_INIT;
                const char *text =
                        arena_printf(&a, "{'processId':'p','signal':2,'sessionId':%s}", rows[n].value);
                int r = test_decode(&a, methods[m].decode, text, room, &err);
                eq_str(err.text, rows[n].message ? rows[n].message : "");
                eq_int(r, rows[n].message ? -EINVAL : 0);
                memcpy(&id, room + methods[m].at, sizeof(id));
                eq_int(id.p != NULL, rows[n].id != NULL);
                if (rows[n].id)
                        eq_slice(id, slice_from_str(rows[n].id));
        }
}
