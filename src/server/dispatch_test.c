/* dispatch_test: tests which messages are refused on their way to a handler, in which order, and with which texts. */
#include "server/dispatch.h"

#include "core/inquiry.h"
#include "server/server_rig.h"

/* ON_LOOP: handles a message as the loop does. ON_THREAD: parses it with dispatch_parse first, as a thread does. */
enum way { ON_LOOP, ON_THREAD, WAYS };

static void client_says(struct client *c, const char *text, enum way way)
{
        _buf_ struct buf b = BUF_INIT(64 * KIB);
        must(buf_append(&b, slice_from_str(text)) == 0);
        if (way == ON_LOOP) {
                dispatch_message(c, buf_slice(&b));
                return;
        }
        _arena_ struct arena a = ARENA_INIT;
        const struct parsed *parsed = dispatch_parse(&a, buf_slice(&b));
        dispatch_parsed(c, &a, &b, parsed);
}

/* Checks the answer to one message of a client in this state of the handshake. */
static void check(bool is_initialized, bool is_ready, const char *text, const char *expect)
{
        for (enum way way = 0; way < WAYS; way++) {
                struct rig *rig = rig_new();
                struct client *c = rig_client(rig, &(struct identity){ 0 });
                c->is_initialized = is_initialized;
                c->is_ready = is_ready;
                client_says(c, text, way);
                eq_str(rig_received(rig, 0), expect);
                rig_free(rig);
        }
}

#define ERROR(id, code, message) "{\"error\":{\"code\":" code ",\"message\":\"" message "\"},\"id\":" id "}"

TEST(an_unknown_method_is_refused_before_the_handshake_is_asked_for)
{
        check(false, false, "{\"id\":1,\"method\":\"process/nothing\"}",
              ERROR("1", "-32601", "unknown method `process/nothing`"));
}

TEST(params_are_decoded_before_the_handshake_is_asked_for)
{
        check(false, false, "{\"id\":1,\"method\":\"process/read\",\"params\":{}}",
              ERROR("1", "-32602", "missing field `processId`"));
}

TEST(a_method_needs_initialize_then_initialized_then_a_session)
{
        const char *text = "{\"id\":\"a\",\"method\":\"process/read\",\"params\":{\"processId\":\"p\"}}";
        check(false, false, text,
              ERROR("\"a\"", "-32600", "client must call initialize before using exec methods"));
        check(true, false, text,
              ERROR("\"a\"", "-32600", "client must send initialized before using exec methods"));
        check(true, true, text, ERROR("\"a\"", "-32600", "session has been resumed by another connection"));
}

TEST(a_handler_answers_a_client_that_has_a_session)
{
        for (enum way way = 0; way < WAYS; way++) {
                struct rig *rig = rig_new();
                const struct identity nobody = { 0 };
                struct client *c = rig_client(rig, &nobody);
                c->is_initialized = c->is_ready = true;
                session_attach(session_new(&rig->server, &nobody, S("test"), 0), c);
                client_says(c, "{\"id\":7,\"method\":\"environment/status\"}", way);
                eq_str(rig_received(rig, 0), "{\"id\":7,\"result\":{\"status\":\"ready\"}}");
                client_says(c, "{\"id\":8,\"method\":\"process/read\",\"params\":{\"processId\":\"p\"}}",
                            way);
                eq_str(rig_received(rig, 0), ERROR("8", "-32600", "unknown process id p"));
                rig_free(rig);
        }
}

TEST(only_initialized_is_taken_as_a_notification_and_only_after_initialize)
{
        check(true, true, "{\"method\":\"process/read\"}",
              ERROR("-1", "-32600", "unexpected notification: process/read"));
        check(false, false, "{\"method\":\"initialized\"}", "close 1008");
        check(true, false, "{\"method\":\"initialized\"}", "");

        struct rig *rig = rig_new();
        struct client *c = rig_client(rig, &(struct identity){ 0 });
        c->is_initialized = true;
        client_says(c, "{\"method\":\"initialized\"}", ON_LOOP);
        ok(c->is_ready);
        rig_free(rig);
}

TEST(a_response_closes_the_connection_because_nothing_was_asked)
{
        check(true, true, "{\"id\":1,\"result\":{}}", "close 1008");
        check(true, true, "{\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}", "close 1008");
}

TEST(a_malformed_message_is_answered_without_an_id)
{
        for (enum way way = 0; way < WAYS; way++) {
                struct rig *rig = rig_new();
                struct client *c = rig_client(rig, &(struct identity){ 0 });
                client_says(c, "{\"id\":1,", way);
                const char *start = "{\"error\":{\"code\":-32600,\"message\":\"failed to parse websocket "
                                    "JSON-RPC message from exec-server websocket test: ";
                ok(slice_starts(slice_from_str(rig_received(rig, 0)), slice_from_str(start)));
                ok(conn_is_usable(c->conn));
                rig_free(rig);
        }
}

/* --- answers to requests of the server ---------------------------------------------------------------------------- */

static unsigned answers, losses;

static void on_answered(UNUSED struct inquiry *i, const struct rpc_message *m)
{
        answers += m->kind == RPC_RESPONSE ? 1 : 10;
}

static void on_lost(UNUSED struct inquiry *i)
{
        losses++;
}

/* Asks the client for nothing in particular. */
static void inquire(struct inquiry *i, struct client *c)
{
        struct jsonw w;
        *i = (struct inquiry){ .answered = on_answered, .lost = on_lost };
        list_init(&i->link);
        inquiry_begin(i, c, "a/b", 0, &w);
        jsonw_member_bool(&w, "x", true);
        inquiry_end(i, &w);
}

TEST(an_inquiry_has_an_id_of_its_own_and_is_answered_once)
{
        struct rig *rig = rig_new();
        struct client *c = rig_client(rig, &(struct identity){ 0 });
        struct inquiry one, two;
        answers = losses = 0;
        inquire(&one, c);
        inquire(&two, c);
        eq_str(rig_received(rig, 0), "{\"id\":1,\"method\":\"a/b\",\"params\":{\"x\":true}}");
        eq_str(rig_received(rig, 0), "{\"id\":2,\"method\":\"a/b\",\"params\":{\"x\":true}}");
        client_says(c, "{\"id\":2,\"error\":{\"code\":1,\"message\":\"m\"}}", ON_THREAD);
        eq_u64(answers, 10);
        ok(!two.client && one.client == c);
        client_says(c, "{\"id\":2,\"result\":{}}", ON_LOOP); /* for the second time */
        client_says(c, "{\"id\":1,\"result\":null}", ON_LOOP);
        eq_u64(answers, 11);
        eq_str(rig_received(rig, 0), "");
        rig_free(rig);
        eq_u64(losses, 0);
}

TEST(an_inquiry_that_was_given_up_may_be_answered_and_one_that_never_was_may_not)
{
        static const char *const strangers[] = { "{\"id\":2,\"result\":{}}", "{\"id\":0,\"result\":{}}",
                                                 "{\"id\":\"1\",\"result\":{}}",
                                                 "{\"id\":3,\"error\":{\"code\":1,\"message\":\"m\"}}" };
        for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
                struct rig *rig = rig_new();
                struct client *c = rig_client(rig, &(struct identity){ 0 });
                struct inquiry one;
                answers = losses = 0;
                inquire(&one, c);
                inquiry_cancel(&one);
                rig_received(rig, 0);
                client_says(c, "{\"id\":1,\"result\":{}}", ON_LOOP);
                eq_str(rig_received(rig, 0), "");
                client_says(c, strangers[i], ON_LOOP);
                eq_str(rig_received(rig, 0), "close 1008");
                rig_free(rig);
                eq_u64(answers + losses, 0);
        }
}

TEST(an_inquiry_is_lost_with_its_connection)
{
        struct rig *rig = rig_new();
        struct inquiry one;
        answers = losses = 0;
        inquire(&one, rig_client(rig, &(struct identity){ 0 }));
        rig_free(rig);
        eq_u64(losses, 1);
        ok(!one.client);
}
