/* question: a request of a typed function that waits: its params are written, it is asked, and its answer is parsed. */
#include "question/question.h"

#include "client/error.h"

#include <errno.h>

void question_release(struct question *q)
{
        buf_release(&q->params);
        buf_release(&q->text);
        arena_release(&q->arena);
}

int question_needs(const struct farhand *f, const char *capability, const char *text,
                   struct farhand_error *ret_error)
{
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        return farhand_has_capability(f, capability) ? 0 : error_set(ret_error, -EOPNOTSUPP, "%s", text);
}

void question_begin(struct question *q, struct farhand *f, const char *method, unsigned flags)
{
        q->client = f;
        q->method = method;
        q->flags = flags;
        jsonw_begin(&q->w, &q->params);
        jsonw_object(&q->w);
}

void question_begin_file(struct question *q, struct farhand *f, const char *method, unsigned flags)
{
        question_begin(q, f, method, flags);
        q->has_sandbox = true;
        question_make_room(q, f->sandbox ? strlen(f->sandbox) : 0);
}

void question_make_room(struct question *q, size_t bytes)
{
        q->params.cap += bytes;
}

int question_path(struct question *q, const char *key, const char *path, struct farhand_error *ret_error)
{
        if (path[0] != '/')
                return error_set(ret_error, -EINVAL, "the path is not absolute");
        jsonw_key(&q->w, key);
        client_path_write(q->client, &q->w, path);
        return 0;
}

static void on_answer(UNUSED struct farhand *f, void *arg, const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct question *q = arg;
        q->is_there = true;
        if (error) {
                q->error = *error;
                return;
        }
        /* The message is gone after this call, so the answer is copied. The server chose its size. */
        struct slice raw = json_raw(&m->doc, m->result);
        char *room;
        int r = buf_reserve_or_fail(&q->text, raw.n, &room);
        if (r < 0) {
                error_set(&q->error, r, "there is no memory for the server's answer to %s", q->method);
                return;
        }
        memcpy(room, raw.p, raw.n);
        buf_commit(&q->text, raw.n);
}

static int send_and_wait(struct question *q, struct farhand_error *ret_error)
{
        struct farhand *f = q->client;
        struct jsonw w;
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        struct call *call = call_begin(f, q->method, &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_raw(&w, buf_slice(&q->params));
        buf_release(&q->params);
        int r = call_end(f, call, &w, q->flags, on_answer, q, ret_error);
        if (r == 0)
                r = client_wait_for(f, &q->is_there, UINT64_MAX, q->method, ret_error);
        if (r < 0)
                calls_forget(f, NULL, q);
        return r;
}

int question_ask(struct question *q, struct farhand_error *ret_error)
{
        struct json_error bad;
        if (q->has_sandbox)
                client_sandbox_write(&q->w, q->client->sandbox);
        jsonw_object_end(&q->w);
        if (jsonw_end(&q->w) < 0)
                return error_set(ret_error, -ENAMETOOLONG, "File name too long");
        int r = send_and_wait(q, ret_error);
        if (r < 0)
                return r;
        if (q->error.code < 0)
                return error_copy(ret_error, &q->error);
        if (json_parse(&q->arena, buf_slice(&q->text), &q->doc, &bad) < 0)
                return error_set(ret_error, -EPROTO, "the server's answer to %s makes no sense", q->method);
        return 0;
}

int question_about(struct question *q, struct farhand *f, const char *method, unsigned flags,
                   const char *path, struct farhand_error *ret_error)
{
        question_begin_file(q, f, method, flags);
        int r = question_path(q, "path", path, ret_error);
        return r < 0 ? r : question_ask(q, ret_error);
}

int question_check_flags(const struct farhand *f, unsigned flags, unsigned known,
                         struct farhand_error *ret_error)
{
        if (flags & ~(known | FARHAND_NO_LINKS))
                return error_set(ret_error, -EINVAL, "the function does not know these flags");
        return flags & FARHAND_NO_LINKS
                       ? question_needs(f, "fsControlV1", "this server cannot refuse links", ret_error)
                       : 0;
}

void question_links(struct question *q, unsigned flags)
{
        if (flags & FARHAND_NO_LINKS)
                jsonw_member_bool(&q->w, "followSymlinks", false);
}

const struct json *question_array(const struct question *q, struct slice key, struct farhand_error *ret_error)
{
        const struct json *array = json_get(&q->doc, question_root(q), key);
        if (array && array->type == JSON_ARRAY)
                return array;
        error_set(ret_error, -EPROTO, "the server's answer has no %.*s", SLICE(key));
        return NULL;
}
