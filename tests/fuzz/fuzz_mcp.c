/* fuzz_mcp: lines to `farhand mcp`. Whatever comes, what is sent is JSON-RPC 2.0, no line ends in the middle of a message, and what is sent because
 * of a line goes the way of the line, which ends once. Calls are begun in a table that has no environment and is never stepped, so that nothing runs. */
#include "base/buf.h"
#include "base/utf8.h"
#include "mcp/conversation.h"
#include "unified/unified.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_message(struct arena *a, const struct json_doc *d, const struct json *v)
{
        const struct json *version = json_get(d, v, S("jsonrpc"));
        bool has_result = json_get(d, v, S("result")), has_error = json_get(d, v, S("error")),
             has_method = json_get(d, v, S("method"));
        check(version && slice_eq(json_string(a, d, version), S("2.0")));
        check(has_result + has_error + has_method == 1);
        check(has_method || json_get(d, v, S("id")));
}

/* Each line has a route of its own: the number of the line, from 1 on. Each route ends exactly once. */
#define LINES_MAX 4096
static bool has_ended[LINES_MAX + 1];
static uint64_t lines, ended;

static void on_send(UNUSED void *arg, uint64_t route, enum outbox_part part, struct buf *message)
{
        check(route == 0 ? part == OUTBOX_MORE : route <= lines && !has_ended[route]);
        if (part != OUTBOX_MORE) {
                has_ended[route] = true;
                ended++;
        }
        if (message->n == 0) {
                check(part == OUTBOX_LAST);
                return;
        }
        _arena_ struct arena a = ARENA_INIT;
        struct json_doc doc;
        struct json_error bad;
        check(!memchr(message->p, '\n', message->n));
        check(json_parse(&a, buf_slice(message), &doc, &bad) == 0);
        const struct json *root = json_root(&doc);
        if (root->type == JSON_ARRAY) {
                check(json_count(&doc, root) > 0);
                json_each (item, &doc, root)
                        check_message(&a, &doc, item);
        } else {
                check_message(&a, &doc, root);
        }
        buf_release(message);
}

static void take(struct conversation *c, struct slice line)
{
        _buf_ struct buf padded = BUF_INIT(1 << 24);
        if (slice_trim(line).n > 0 && lines < LINES_MAX && buf_append(&padded, line) == 0)
                conversation_take(c, ++lines, buf_slice(&padded));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const char *const ids[] = { "here", "there", NULL };
        struct slice rest = slice_from(data, size);
        memset(has_ended, 0, sizeof(has_ended));
        lines = ended = 0;
        struct err err = ERR_INIT;
        struct approvals_asker asker;
        struct conversation_options options = {
                .environments = ids,
                .asks_for_roots = true,
                .outbox = { .send = on_send },
        };
        struct unified_options table_options = { .budget = CUT_NO_BUDGET };
        struct conversation *c = conversation_new(&options);
        conversation_prepare(c, &table_options, &asker);
        table_options.approvals = approvals_new(APPROVAL_UNTRUSTED, NULL, &asker, &err);
        struct unified *table = unified_new(&table_options, &err);
        check(table_options.approvals && table);
        conversation_use(c, table, table_options.approvals);
        while (rest.n > 0) {
                const char *end = memchr(rest.p, '\n', rest.n);
                size_t n = end ? (size_t)(end - rest.p) : rest.n;
                take(c, slice_from(rest.p, n));
                rest = slice_from(rest.p + n + (end != NULL), rest.n - n - (end != NULL));
        }
        (void)conversation_due_ms(c);
        conversation_on_turn(c, UINT64_MAX - 1);
        conversation_end(c);
        unified_free(table);
        approvals_free(table_options.approvals);
        conversation_free(c);
        check(ended == lines);
        return 0;
}
