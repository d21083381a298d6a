/* answer: calls methods for subcommands, and reads their results. The library limits how long a result can be. */
#include "cli/answer.h"

#include "base/printable.h"

#include <errno.h>
#include <stdio.h>

void answer_release(struct answer *a)
{
        arena_release(&a->arena);
        buf_release(&a->text);
}

int answer_get(struct answer *ret, const struct remote *r, struct farhand *f, const char *method,
               const char *params)
{
        struct farhand_error error;
        struct json_error bad;
        char *result = NULL;
        int n = farhand_call_wait(f, method, params, FARHAND_REPEAT, -1, &result, &error);
        answer_release(ret); /* not before: `params` may be in its arena */
        if (n < 0) {
                remote_say(r, "%s", error.text);
                return n;
        }
        n = buf_append(&ret->text, slice_from_str(result));
        free(result);
        if (n == 0 && json_parse(&ret->arena, buf_slice(&ret->text), &ret->doc, &bad) == 0) {
                ret->root = json_root(&ret->doc);
                return 0;
        }
        remote_say(r, "the server's answer to %s cannot be read", method);
        return -EPROTO;
}

void answer_print(struct answer *a, struct slice json)
{
        puts(printable_json(&a->arena, json));
}

const char *answer_text(struct answer *a, const struct json *object, const char *key)
{
        const struct json *value = json_get(&a->doc, object, slice_from_str(key));
        return value && value->type == JSON_STRING
                       ? arena_dup(&a->arena, json_string(&a->arena, &a->doc, value))
                       : "";
}

int64_t answer_number(struct answer *a, const struct json *object, const char *key, int64_t otherwise)
{
        int64_t number;
        const struct json *value = json_get(&a->doc, object, slice_from_str(key));
        return value && json_i64(&a->doc, value, &number) == 0 ? number : otherwise;
}

bool answer_is_true(struct answer *a, const struct json *object, const char *key)
{
        const struct json *value = json_get(&a->doc, object, slice_from_str(key));
        return value && value->type == JSON_TRUE;
}
