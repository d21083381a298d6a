/* read_file: the content of a file, or the digest of a part of it, at once. */
#include "question/question.h"

#include "base/base64.h"
#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

#define PIECE_BYTES ((size_t)256 * 1024)

static void free_stream(struct farhand_file **file)
{
        farhand_file_free(*file);
}

int farhand_read_file(struct farhand *f, const char *path, size_t max_bytes, char **ret, size_t *ret_bytes,
                      struct farhand_error *ret_error)
{
        /* A stream, because it survives a lost connection, and stops when the file is too long. One byte more than is wanted is
         * read: it tells that the file is too long. */
        size_t cap = MIN(max_bytes, SIZE_MAX / 4) + 1;
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        _buf_ struct buf content = BUF_INIT(cap);
        CLEANUP(free_stream) struct farhand_file *file = farhand_file_open(f, path, &options, ret_error);
        if (!file)
                return path[0] != '/' ? -EINVAL : -ENOTCONN;
        for (;;) {
                char *room;
                size_t wanted = MIN(PIECE_BYTES, cap - content.n);
                if (wanted == 0)
                        return error_set(ret_error, -EFBIG, "the file is longer than %zu bytes", max_bytes);
                if (buf_reserve_or_fail(&content, wanted, &room) < 0)
                        return error_set(ret_error, -ENOMEM, "there is no memory for the file");
                int64_t n = farhand_file_read(file, room, wanted, ret_error);
                if (n == 0)
                        break;
                int r = n == -EAGAIN ? farhand_file_wait(file, -1, ret_error) : n < 0 ? (int)n : 0;
                if (r < 0)
                        return r;
                buf_commit(&content, n > 0 ? (size_t)n : 0);
        }
        *ret_bytes = content.n;
        *ret = buf_take(&content);
        return 0;
}

int farhand_read_file_with(struct farhand *f, const char *path, size_t max_bytes, unsigned flags, char **ret,
                           size_t *ret_bytes, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_check_flags(f, flags, 0, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/readFile", FARHAND_REPEAT);
        r = question_path(&q, "path", path, ret_error);
        question_links(&q, flags);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *value = json_get(&q.doc, question_root(&q), S("dataBase64"));
        struct slice text =
                value && value->type == JSON_STRING ? json_raw(&q.doc, value) : (struct slice){ 0 };
        /* This is malloc, not mem_alloc: the server chose the size. */
        _free_ char *content = text.p ? malloc(base64_decoded_max(text.n) + 1) : NULL;
        if (text.p && !content)
                return error_set(ret_error, -ENOMEM, "there is no memory for the file");
        ssize_t n = text.p && !value->has_escape ? base64_decode(content, text.p, text.n, NULL) : -1;
        if (n < 0)
                return error_set(ret_error, -EPROTO, "the server's answer has no content");
        if ((size_t)n > max_bytes)
                return error_set(ret_error, -EFBIG, "the file is longer than %zu bytes", max_bytes);
        content[n] = '\0';
        *ret_bytes = (size_t)n;
        *ret = TAKE(content);
        return 0;
}

int farhand_digest_with(struct farhand *f, const char *path, uint64_t offset, uint64_t length, unsigned flags,
                        struct farhand_digest *ret, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_digest digest = { .size = ret->size };
        if (ret->size < offsetof(struct farhand_digest, file_bytes))
                return error_set(ret_error, -EINVAL,
                                 "struct farhand_digest has no size: use FARHAND_DIGEST_INIT");
        int r = question_needs(f, "fsBatchV1", "this server has no fsBatchV1", ret_error);
        if (r == 0)
                r = question_check_flags(f, flags, 0, ret_error);
        if (r < 0)
                return r;
        question_begin_file(&q, f, "fs/digest", FARHAND_REPEAT);
        r = question_path(&q, "path", path, ret_error);
        jsonw_member_u64(&q.w, "offset", offset);
        if (length != UINT64_MAX)
                jsonw_member_u64(&q.w, "length", length);
        question_links(&q, flags);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *root = question_root(&q);
        client_digest_read(&q.arena, &q.doc, root, digest.text);
        if (!digest.text[0] || !member_u64(&q.doc, root, S("bytes"), &digest.bytes) ||
            !member_u64(&q.doc, root, S("size"), &digest.file_bytes))
                return error_set(ret_error, -EPROTO, "the server's answer has no digest");
        memcpy(ret, &digest, MIN(ret->size, sizeof(digest)));
        return 0;
}

int farhand_digest(struct farhand *f, const char *path, uint64_t offset, uint64_t length,
                   char ret_digest[FARHAND_DIGEST_BYTES], uint64_t *ret_bytes,
                   struct farhand_error *ret_error)
{
        struct farhand_digest digest = FARHAND_DIGEST_INIT;
        int r = farhand_digest_with(f, path, offset, length, 0, &digest, ret_error);
        if (r < 0)
                return r;
        memcpy(ret_digest, digest.text, sizeof(digest.text));
        if (ret_bytes)
                *ret_bytes = digest.bytes;
        return 0;
}
