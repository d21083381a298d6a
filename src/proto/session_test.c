/* session_test: params of initialize: the members of the reference and those that only this server knows. */
#include "proto/session.h"

#include "proto/test_internal.h"
#include "unit.h"

#include <errno.h>

static const struct {
        const char *text;
        const char *message; /* NULL: accepted */
} rows[] = {
        { "{'clientName':'x'}", NULL },
        { "{'clientName':'','resumeSessionId':null,'more':1}", NULL },
        { "{'clientName':'x','takeover':null,'maxMessageBytes':null,'detachMs':null}", NULL },
        { "{'clientName':'x','maxMessageBytes':65536}", NULL },
        { "{'clientName':'x','notifications':['started','whatever']}", NULL },
        { "{'clientName':'x','notifications':[]}", NULL },
        { "{'clientName':'x','notifications':null}",
          "notifications: invalid type: null, expected a sequence" },
        { NULL, "invalid type: null, expected struct InitializeParams" },
        { "[]", "invalid type: sequence, expected struct InitializeParams" },
        { "['x',null]", "invalid type: sequence, expected struct InitializeParams" },
        { "{}", "missing field `clientName`" },
        { "{'resumeSessionId':5}", "missing field `clientName`" },
        { "{'clientName':5}", "invalid type: number, expected a string" },
        { "{'clientName':'x','resumeSessionId':5}", "invalid type: number, expected a string" },
        { "{'clientName':'x','takeover':5}", "takeover: invalid type: number, expected a boolean" },
        { "{'clientName':'x','maxMessageBytes':-1}", "maxMessageBytes: invalid number" },
        { "{'clientName':'x','maxMessageBytes':'9'}",
          "maxMessageBytes: invalid type: string \"9\", expected u64" },
        { "{'clientName':'x','detachMs':1.5}", "detachMs: invalid number" },
        { "{'clientName':'x','notifications':'started'}",
          "notifications: invalid type: string \"started\", expected a sequence" },
        { "{'clientName':'x','notifications':[1]}",
          "notifications: invalid type: number, expected a string" },
};

TEST(initialize_takes_its_members_and_names_what_is_wrong)
{
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct initialize in = { 0 };
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, initialize_decode, rows[i].text, &in, &err),
                       rows[i].message ? -EINVAL : 0);
                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(err.client_code, rows[i].message ? RPC_INVALID_PARAMS : 0);
        }
}

TEST(initialize_without_options_has_none)
{
        _arena_ struct arena a = ARENA_INIT;
        struct initialize in = { 0 };
        struct err err = ERR_INIT;

        eq_int(test_decode(&a, initialize_decode, "{'clientName':'me','resumeSessionId':null}", &in, &err),
               0);
        eq_slice(in.client_name, S("me"));
        ok(!in.resume_session_id.p);
        ok(!in.takes_over && !in.has_max_message_bytes && !in.has_detach_ms);
        ok(!in.wants_started && !in.wants_failed);
}

TEST(initialize_with_all_options_has_them)
{
        _arena_ struct arena a = ARENA_INIT;
        struct initialize in = { 0 };
        struct err err = ERR_INIT;

        eq_int(test_decode(&a, initialize_decode,
                           "{'detachMs':0,'maxMessageBytes':100000,'takeover':true,'resumeSessionId':'',"
                           "'clientName':'me'}",
                           &in, &err),
               0);
        ok(in.resume_session_id.p); /* the id is empty, but present */
        eq_slice(in.resume_session_id, S(""));
        ok(in.takes_over && in.has_max_message_bytes && in.has_detach_ms);
        eq_u64(in.max_message_bytes, 100000);
        eq_u64(in.detach_ms, 0);
}

TEST(initialize_wants_the_notifications_that_it_names)
{
        static const struct {
                const char *text;
                bool started, failed;
        } names[] = {
                { "[]", false, false },
                { "['started']", true, false },
                { "['failed']", false, true },
                { "['failed','started','failed']", true, true },
                { "['Started','failed ','','start']", false, false },
                { "['later','started']", true, false },
        };
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct initialize in = { 0 };
                struct err err = ERR_INIT;
                const char *text = arena_printf(&a, "{'clientName':'x','notifications':%s}", names[i].text);

                eq_int(test_decode(&a, initialize_decode, text, &in, &err), 0);
                eq_int(in.wants_started, names[i].started);
                eq_int(in.wants_failed, names[i].failed);
        }
}
