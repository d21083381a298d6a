/* access: what a permission profile allows: requests that ask before something is done, and the denials that errors carry. */
#include "question/question.h"

#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

#define PATHS_MAX 4096 /* in one request */
#define PIECE_BYTES_MAX \
        ((size_t)4 * 1024 * 1024) /* room for the paths of one request, unless one alone needs more */
#define PATH_ROOM(path) (strlen(path) * 6 + 64) /* what one path takes at most, with all its bytes escaped */

/* ---- refusals ---- */

/* Reads the member `denied`. Returns false when it is missing or makes no sense. The strings are in the arena. */
static bool read_denial(struct arena *a, const struct json_doc *d, const struct json *object,
                        struct farhand_denial *ret)
{
        const struct json *denied = json_get(d, object, S("denied"));
        *ret = (struct farhand_denial){
                .operation = member_text(a, d, denied, S("operation")),
                .path = member_path(a, d, denied, S("path")),
                .rule = member_text(a, d, denied, S("rule")),
                .entry = member_path(a, d, denied, S("entry")),
        };
        if (!ret->entry) /* a pattern */
                ret->entry = member_text(a, d, denied, S("entry"));
        return ret->operation && ret->path && ret->rule;
}

static const char *put_text(char **at, const char *text)
{
        char *here = *at;
        if (!text)
                return NULL;
        *at = stpcpy(here, text) + 1;
        return here;
}

struct farhand_denial *farhand_error_denial(const struct farhand_error *error)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(sizeof(error->data));
        struct json_doc doc;
        struct json_error bad;
        struct farhand_denial found;
        if (buf_append(&text, slice_from_str(error->data)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0 ||
            !read_denial(&a, &doc, json_root(&doc), &found))
                return NULL;
        /* One block of memory, so that the program frees one thing. */
        struct farhand_denial *denial =
                mem_alloc(sizeof(*denial) + strlen(found.operation) + strlen(found.path) +
                          strlen(found.rule) + (found.entry ? strlen(found.entry) : 0) + 4);
        char *at = (char *)(denial + 1);
        denial->operation = put_text(&at, found.operation);
        denial->path = put_text(&at, found.path);
        denial->rule = put_text(&at, found.rule);
        denial->entry = put_text(&at, found.entry);
        return denial;
}

/* ---- questions ---- */

static const struct farhand_access *access_at(const struct farhand_access *wanted, size_t i)
{
        return (const struct farhand_access *)(const void *)((const char *)wanted + i * wanted->size);
}

static int check(const struct farhand_access *wanted, size_t count, struct farhand_error *ret_error)
{
        for (size_t i = 0; i < count; i++) {
                if (wanted->size < sizeof(struct farhand_access) || wanted->size % sizeof(size_t) != 0 ||
                    access_at(wanted, i)->size != wanted->size)
                        return error_set(ret_error, -EINVAL,
                                         "struct farhand_access has no size, or not always the same");
                if ((unsigned)access_at(wanted, i)->kind > FARHAND_ACCESS_REMOVE)
                        return error_set(ret_error, -EINVAL, "there is no such kind of access");
                if (access_at(wanted, i)->path[0] != '/')
                        return error_set(ret_error, -EINVAL, "the path is not absolute");
        }
        return 0;
}

/* Writes the first paths, as many as one request takes. Returns how many. */
static size_t write_paths(struct question *q, const struct farhand_access *wanted, size_t count)
{
        static const char *const kinds[] = { [FARHAND_ACCESS_READ] = "read",
                                             [FARHAND_ACCESS_WRITE] = "write",
                                             [FARHAND_ACCESS_REMOVE] = "remove" };
        size_t n = 0, bytes = 0;
        jsonw_key(&q->w, "paths");
        jsonw_array(&q->w);
        while (n < MIN(count, (size_t)PATHS_MAX)) {
                const struct farhand_access *one = access_at(wanted, n);
                bytes += PATH_ROOM(one->path);
                if (n > 0 && bytes > PIECE_BYTES_MAX)
                        break;
                question_make_room(q, PATH_ROOM(one->path));
                jsonw_object(&q->w);
                jsonw_key(&q->w, "path");
                client_path_write(q->client, &q->w, one->path);
                jsonw_member_str(&q->w, "access", kinds[one->kind]);
                jsonw_object_end(&q->w);
                n++;
        }
        jsonw_array_end(&q->w);
        return n;
}

static void tell(struct question *q, const struct json *one, size_t index,
                 void (*on_result)(void *arg, size_t index, const struct farhand_access_result *result),
                 void *arg)
{
        struct farhand_denial denial;
        int64_t number = 0;
        struct farhand_access_result result = { .is_allowed = member_is_true(&q->doc, one, S("allowed")) };
        if (member_i64(&q->doc, one, S("errno"), &number) && number > 0 && number <= INT32_MAX)
                result.error_number = (int)number;
        if (read_denial(&q->arena, &q->doc, one, &denial))
                result.denial = &denial;
        on_result(arg, index, &result);
}

int farhand_check_access(struct farhand *f, const struct farhand_access *wanted, size_t count,
                         void (*on_result)(void *arg, size_t index,
                                           const struct farhand_access_result *result),
                         void *arg, struct farhand_error *ret_error)
{
        int r = check(wanted, count, ret_error);
        if (r == 0)
                r = question_needs(f, "fsAccessV1", "this server does not tell what is allowed", ret_error);
        for (size_t done = 0; r == 0 && done < count;) {
                _question_ struct question q = QUESTION_INIT;
                question_begin_file(&q, f, "fs/checkAccess", FARHAND_REPEAT);
                size_t n = write_paths(&q, access_at(wanted, done), count - done);
                r = question_ask(&q, ret_error);
                if (r < 0)
                        return r;
                const struct json *results = question_array(&q, S("results"), ret_error);
                if (!results)
                        return -EPROTO;
                if (json_count(&q.doc, results) != n)
                        return error_set(ret_error, -EPROTO, "the server did not answer for each path");
                json_each (it, &q.doc, results)
                        tell(&q, it, done++, on_result, arg);
        }
        return r;
}
