/* answer: calls a method and parses its result. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "cli/remote.h"
#include "wire/json.h"

struct answer {
        struct arena arena;
        struct buf text;
        struct json_doc doc;
        const struct json *root;
};

#define ANSWER_INIT ((struct answer){ .arena = ARENA_INIT, .text = BUF_INIT(128 * 1024 * 1024) })
void answer_release(struct answer *a);
#define _answer_ CLEANUP(answer_release)

/* Calls a method that changes nothing, and parses its result. Returns 0, or -errno after it has printed why on stderr. */
NODISCARD int answer_get(struct answer *ret, const struct remote *r, struct farhand *f, const char *method,
                         const char *params);

/* Prints JSON of the server on stdout as one line that does nothing to a terminal. */
void answer_print(struct answer *a, struct slice json);

/* These three functions return a member of an object, or "", `otherwise` or false when there is no such member of that type. Texts
 * are in the answer's arena. */
const char *answer_text(struct answer *a, const struct json *object, const char *key);
int64_t answer_number(struct answer *a, const struct json *object, const char *key, int64_t otherwise);
bool answer_is_true(struct answer *a, const struct json *object, const char *key);
