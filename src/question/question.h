/* question: a request of a typed function that waits: its params are written, it is asked, and its answer is parsed.
 *
 * A question is used once: question_begin or question_begin_file, members written to `w`, question_ask, and then `doc` is read.
 * _question_ frees it at the end of the scope.
 */
#pragma once

#include "client/client.h"

/* Room for two paths with all their characters escaped. Content and names come on top (question_make_room). */
#define QUESTION_PARAMS_MAX ((size_t)512 * 1024)

struct question {
        struct farhand *client;
        const char *method;
        unsigned flags;
        bool has_sandbox; /* the request carries the sandbox of the client */
        struct buf params;
        struct jsonw w;
        bool is_there; /* the answer has come, or `error` says why not */
        struct farhand_error error;
        struct arena arena;
        struct buf text; /* the answer; `doc` points into it */
        struct json_doc doc;
};

void question_release(struct question *q);
#define _question_ CLEANUP(question_release)
#define QUESTION_INIT                                                \
        ((struct question){ .params = BUF_INIT(QUESTION_PARAMS_MAX), \
                            .text = BUF_INIT(TRANSPORT_MESSAGE_MAX) })

/* Returns 0; -ENOTCONN before the first connection; or -EOPNOTSUPP with the text when the server has not announced the capability. */
int question_needs(const struct farhand *f, const char *capability, const char *text,
                   struct farhand_error *ret_error);

void question_begin(struct question *q, struct farhand *f, const char *method, unsigned flags);
/* Begins a request on files: it carries the sandbox of the client, if there is one. */
void question_begin_file(struct question *q, struct farhand *f, const char *method, unsigned flags);
/* Allows the params to have so many bytes more. */
void question_make_room(struct question *q, size_t bytes);
/* Writes a member that is a path. Returns -EINVAL when the path is not absolute. */
int question_path(struct question *q, const char *key, const char *path, struct farhand_error *ret_error);
/* Sends the request, waits for the answer, and parses it. Memory that cannot be had for the answer is -ENOMEM. */
int question_ask(struct question *q, struct farhand_error *ret_error);
/* Asks a question on files whose only param is one path. */
int question_about(struct question *q, struct farhand *f, const char *method, unsigned flags,
                   const char *path, struct farhand_error *ret_error);

/* Checks a target, and begins a request on it. `needs_control`: the server must have processControlV1. */
int question_target(struct question *q, struct farhand *f, const struct farhand_target *target,
                    const char *method, unsigned flags, bool needs_control, struct farhand_error *ret_error);

/* Returns the root of the answer. */
static inline const struct json *question_root(const struct question *q)
{
        return json_root(&q->doc);
}

/* Returns a member of the answer that is an array, or NULL with *ret_error (-EPROTO). */
const struct json *question_array(const struct question *q, struct slice key,
                                  struct farhand_error *ret_error);

/* Checks the flags of a function whose name ends in _with: `known` are its own. Returns -EOPNOTSUPP for FARHAND_NO_LINKS on a server
 * that would follow links. */
int question_check_flags(const struct farhand *f, unsigned flags, unsigned known,
                         struct farhand_error *ret_error);
/* Writes the member followSymlinks, when FARHAND_NO_LINKS asks for it. */
void question_links(struct question *q, unsigned flags);

/* ---- files.c ---- */

/* Returns whether this can be the name of an entry of a directory: not empty, no slash, no NUL, not "." or "..". */
bool question_is_name(struct slice name);
