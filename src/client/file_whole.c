/* file_whole: streams of a server that cannot read or write in blocks: one request takes or gives the whole content. */
#include "client/file_stream.h"

#include "base/base64.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

static void on_whole(UNUSED struct farhand *f, void *arg, const struct rpc_message *m,
                     const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        _arena_ struct arena a = ARENA_INIT;
        char *room;
        if (error) {
                file_fail(file, error);
                return;
        }
        const struct json *data = json_get(&m->doc, m->result, S("dataBase64"));
        if (!data || data->type != JSON_STRING) {
                file_fail_with(file, -EPROTO, "the server's answer has no content");
                return;
        }
        struct slice text = json_string(&a, &m->doc, data);
        int r = buf_reserve_or_fail(&file->whole, base64_decoded_max(text.n), &room);
        ssize_t n = r < 0 ? r : base64_decode(room, text.p, text.n, NULL);
        if (n < 0) {
                file_fail_with(file, r < 0 ? r : -EPROTO, "the server's answer has no usable content");
                return;
        }
        buf_commit(&file->whole, (size_t)n);
        file->whole_at = (size_t)MIN(file->next_offset, (uint64_t)n);
        file->is_whole_there = true;
        file->done_bytes = (uint64_t)n;
}

void file_read_whole(struct farhand_file *file)
{
        struct jsonw w;
        file->state = FILE_WHOLE;
        struct call *call = file_call_begin(file, "fs/readFile", &w);
        if (!call) {
                file_fail_with(file, -EAGAIN, "too many calls wait for their answers");
                return;
        }
        jsonw_object(&w);
        jsonw_key(&w, "path");
        client_path_write(file->client, &w, file->path);
        client_sandbox_write(&w, file->sandbox);
        (void)file_call_end(file, call, &w, FARHAND_REPEAT, on_whole, file);
}

static void on_whole_written(UNUSED struct farhand *f, void *arg, UNUSED const struct rpc_message *m,
                             const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        if (error) {
                file_fail(file, error);
                return;
        }
        file->state = FILE_CLOSED;
        file->done_bytes = file->next_offset;
}

void file_write_whole(struct farhand_file *file)
{
        struct jsonw w;
        struct call *call = file->is_close_asked ? NULL : file_call_begin(file, "fs/writeFile", &w);
        if (!call)
                return;
        jsonw_object(&w);
        jsonw_key(&w, "path");
        client_path_write(file->client, &w, file->path);
        client_sandbox_write(&w, file->sandbox);
        jsonw_key(&w, "dataBase64");
        jsonw_base64(&w, buf_slice(&file->whole));
        file->is_close_asked = file_call_end(file, call, &w, 0, on_whole_written, file);
        file->next_offset = file->whole.n;
        buf_release(&file->whole);
}

int64_t file_take_whole(struct farhand_file *file, void *buf, size_t n)
{
        if (!file->is_whole_there)
                return -EAGAIN;
        n = MIN(n, file->whole.n - file->whole_at);
        if (n > 0)
                memcpy(buf, file->whole.p + file->whole_at, n);
        file->whole_at += n;
        return (int64_t)n;
}

int64_t file_put_whole(struct farhand_file *file, const void *bytes, size_t n,
                       struct farhand_error *ret_error)
{
        char *room;
        if (buf_reserve_or_fail(&file->whole, n, &room) < 0)
                return error_set(ret_error, -EFBIG, "this server takes files of at most %zu bytes",
                                 WHOLE_FILE_MAX);
        if (n > 0)
                memcpy(room, bytes, n);
        buf_commit(&file->whole, n);
        return (int64_t)n;
}
