/* file_stream: a file of the server as a stream, with a window of blocks under way.
 *
 * Each block has a slot, in a ring in the order of the file. A slot that is read keeps its bytes until the program takes them; one
 * that is written keeps them until the server has confirmed them, so that it can be sent again. Handles belong to the connection: when
 * that was lost, the file is opened again under another id, and the blocks that are not done are asked for again.
 */
#include "client/client_internal.h"

#include "base/base64.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <inttypes.h>

#define WINDOW_MAX 32
#define WINDOW_USUAL 6
#define BLOCK_MAX ((size_t)1024 * 1024)
#define BLOCK_USUAL ((size_t)256 * 1024)

enum file_state {
        FILE_OPENING, /* also when it must be opened again */
        FILE_OPEN,
        FILE_WHOLE, /* the server has no blocks: `whole` is or becomes the content */
        FILE_CLOSED,
        FILE_FAILED,
};

struct slot {
        struct farhand_file *file;
        uint64_t offset;
        size_t n, at; /* bytes, and how many of them were taken by the program */
        bool is_asked;
        bool is_done; /* reading: the bytes are there */
        bool is_last; /* reading: the end of the file is behind these */
        char *bytes;  /* of block_bytes, and two for the rounding of base64 */
};

struct farhand_file {
        struct list link; /* farhand::files */
        struct farhand *client;
        char *path;
        enum farhand_file_mode mode;
        enum file_state state;
        struct farhand_error failure;
        char handle[24];
        uint64_t losses; /* those of the client when the handle was opened */
        bool is_open_asked;
        bool was_lost;   /* it is being opened again */
        bool is_checked; /* … and is the same file */
        bool has_metadata;
        struct farhand_metadata metadata; /* reading: as it was at first */
        unsigned window;
        size_t block_bytes;
        struct slot slots[WINDOW_MAX];
        unsigned first, count; /* those in use */
        uint64_t next_offset;
        bool is_flowing;   /* reading: the first block has come, and was not the last */
        bool is_at_end;    /* reading: all was taken */
        bool is_finishing; /* writing: nothing more will come */
        bool is_close_asked;
        bool is_whole_there;
        struct buf whole;
        size_t whole_at;
};

static struct slot *slot_at(struct farhand_file *file, unsigned i)
{
        return &file->slots[(file->first + i) % file->window];
}

static void advance(struct farhand_file *file);

static void fail(struct farhand_file *file, const struct farhand_error *error)
{
        if (file->state == FILE_FAILED)
                return;
        file->state = FILE_FAILED;
        file->failure = *error;
}

static void fail_with(struct farhand_file *file, int code, const char *text)
{
        struct farhand_error error;
        error_set(&error, code, "%s", text);
        fail(file, &error);
}

/* ---- requests ---- */

static void begin_handle(struct farhand_file *file, struct jsonw *w)
{
        jsonw_object(w);
        jsonw_member_str(w, "handleId", file->handle);
}

/* Ends a request. One that cannot be made now (there are too many) is made later. */
static bool end(struct farhand_file *file, struct call *call, struct jsonw *w, unsigned flags, call_done done,
                void *arg)
{
        struct farhand_error error;
        jsonw_object_end(w);
        if (call_end(file->client, call, w, flags, done, arg, &error) == 0)
                return true;
        fail(file, &error);
        return false;
}

static struct call *begin(struct farhand_file *file, const char *method, struct jsonw *w)
{
        struct farhand_error error;
        struct call *call = call_begin(file->client, method, w, &error);
        if (!call && error.code != -EAGAIN)
                fail(file, &error);
        return call;
}

/* Returns whether the connection is gone and will be resumed: then the file must be opened again. */
static bool is_loss(const struct farhand_file *file, const struct farhand_error *error)
{
        return error->code == -ECONNRESET && error->rpc_code == 0 &&
               file->client->state == FARHAND_RECOVERING;
}

static void reopen(struct farhand_file *file)
{
        if (file->state != FILE_OPEN && file->state != FILE_OPENING)
                return;
        if (file->mode != FARHAND_FILE_READ && !farhand_has_capability(file->client, "fsControlV1")) {
                fail_with(file, -ECONNRESET,
                          "the connection was lost, and this server cannot resume a write");
                return;
        }
        file->state = FILE_OPENING;
        file->was_lost = true;
        file->is_checked = false;
        advance(file);
}

/* ---- whole files ---- */

static void on_whole(UNUSED struct farhand *f, void *arg, const struct rpc_message *m,
                     const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        _arena_ struct arena a = ARENA_INIT;
        char *room;
        if (error) {
                fail(file, error);
                return;
        }
        const struct json *data = json_get(&m->doc, m->result, S("dataBase64"));
        if (!data || data->type != JSON_STRING) {
                fail_with(file, -EPROTO, "the server's answer has no content");
                return;
        }
        struct slice text = json_string(&a, &m->doc, data);
        int r = buf_reserve_or_fail(&file->whole, base64_decoded_max(text.n), &room);
        ssize_t n = r < 0 ? r : base64_decode(room, text.p, text.n, NULL);
        if (n < 0) {
                fail_with(file, r < 0 ? r : -EPROTO, "the server's answer has no usable content");
                return;
        }
        buf_commit(&file->whole, (size_t)n);
        file->whole_at = (size_t)MIN(file->next_offset, (uint64_t)n);
        file->is_whole_there = true;
}

static void read_whole(struct farhand_file *file)
{
        struct jsonw w;
        file->state = FILE_WHOLE;
        struct call *call = begin(file, "fs/readFile", &w);
        if (!call) {
                fail_with(file, -EAGAIN, "too many calls wait for their answers");
                return;
        }
        jsonw_object(&w);
        jsonw_key(&w, "path");
        client_path_write(file->client, &w, file->path);
        (void)end(file, call, &w, FARHAND_REPEAT, on_whole, file);
}

static void on_whole_written(UNUSED struct farhand *f, void *arg, UNUSED const struct rpc_message *m,
                             const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        if (error)
                fail(file, error);
        else
                file->state = FILE_CLOSED;
}

static void write_whole(struct farhand_file *file)
{
        struct jsonw w;
        struct call *call = file->is_close_asked ? NULL : begin(file, "fs/writeFile", &w);
        if (!call)
                return;
        jsonw_object(&w);
        jsonw_key(&w, "path");
        client_path_write(file->client, &w, file->path);
        jsonw_key(&w, "dataBase64");
        jsonw_base64(&w, buf_slice(&file->whole));
        file->is_close_asked = end(file, call, &w, 0, on_whole_written, file);
        buf_release(&file->whole);
}

/* ---- opening ---- */

static void on_first_stat(UNUSED struct farhand *f, void *arg, const struct farhand_metadata *metadata,
                          UNUSED const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        if (!metadata || file->has_metadata)
                return;
        file->has_metadata = true;
        file->metadata = *metadata;
}

/* Returns whether the file is the same after the connection was lost. */
static void on_second_stat(UNUSED struct farhand *f, void *arg, const struct farhand_metadata *metadata,
                           UNUSED const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        file->is_open_asked = false;
        file->is_checked = true;
        if (!metadata || metadata->size != file->metadata.size ||
            metadata->modified_ms != file->metadata.modified_ms)
                fail_with(file, -ESTALE, "the file was changed while the connection was lost");
        advance(file);
}

static void on_opened(UNUSED struct farhand *f, void *arg, UNUSED const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        file->is_open_asked = false;
        if (file->state != FILE_OPENING)
                return;
        if (error && is_loss(file, error)) {
                reopen(file);
        } else if (error && error->rpc_code == RPC_METHOD_NOT_FOUND && file->mode == FARHAND_FILE_READ) {
                read_whole(file);
        } else if (error) {
                fail(file, error);
        } else {
                file->state = FILE_OPEN;
                file->losses = file->client->losses;
                advance(file);
        }
}

static void ask_open(struct farhand_file *file)
{
        static const char *const modes[] = { "read", "replace", "resume" };
        struct jsonw w;
        if (file->mode == FARHAND_FILE_READ && file->was_lost && file->has_metadata && !file->is_checked) {
                file->is_open_asked =
                        farhand_stat_begin(file->client, file->path, on_second_stat, file, NULL) == 0;
                return;
        }
        struct call *call = begin(file, "fs/open", &w);
        if (!call)
                return;
        enum farhand_file_mode mode = file->mode;
        if (file->was_lost && mode == FARHAND_FILE_REPLACE)
                mode = FARHAND_FILE_RESUME; /* what is written already stays */
        (void)snprintf(file->handle, sizeof(file->handle), "f%" PRIu64, file->client->next_file++);
        begin_handle(file, &w);
        jsonw_key(&w, "path");
        client_path_write(file->client, &w, file->path);
        if (mode != FARHAND_FILE_READ)
                jsonw_member_str(&w, "mode", modes[mode]);
        file->is_open_asked = end(file, call, &w, 0, on_opened, file);
        if (file->mode == FARHAND_FILE_READ && !file->was_lost)
                (void)farhand_stat_begin(file->client, file->path, on_first_stat, file, NULL);
}

/* ---- blocks ---- */

/* Takes the bytes of an answer into the slot. */
static void take_block(struct slot *slot, const struct rpc_message *m)
{
        struct farhand_file *file = slot->file;
        _arena_ struct arena a = ARENA_INIT;
        const struct json *chunk = json_get(&m->doc, m->result, S("chunk"));
        const struct json *eof = json_get(&m->doc, m->result, S("eof"));
        if (!chunk || chunk->type != JSON_STRING || !eof) {
                fail_with(file, -EPROTO, "the server's answer has no block");
                return;
        }
        struct slice text = json_string(&a, &m->doc, chunk);
        ssize_t n = text.n > base64_encoded_size(file->block_bytes)
                            ? -1
                            : base64_decode(slot->bytes, text.p, text.n, NULL);
        slot->is_last = eof->type == JSON_TRUE;
        if (n < 0 || (size_t)n > file->block_bytes || (!slot->is_last && (size_t)n < file->block_bytes)) {
                fail_with(file, -EPROTO, "the server sent a block that was not asked for");
                return;
        }
        slot->n = (size_t)n;
        slot->at = 0;
        slot->is_done = true;
        file->is_flowing = true;
}

/* Forgets the confirmed blocks at the beginning of the ring. */
static void drop_written(struct farhand_file *file)
{
        while (file->count > 0 && slot_at(file, 0)->is_done) {
                file->first = (file->first + 1) % file->window;
                file->count--;
        }
}

static void on_block(UNUSED struct farhand *f, void *arg, const struct rpc_message *m,
                     const struct farhand_error *error)
{
        struct slot *slot = arg;
        struct farhand_file *file = slot->file;
        slot->is_asked = false;
        if (file->state == FILE_FAILED)
                return;
        if (error && is_loss(file, error)) {
                reopen(file);
                return;
        }
        if (error) {
                /* Of a file that could not be opened the first error counts. */
                if (file->state == FILE_OPEN)
                        fail(file, error);
                return;
        }
        if (file->mode == FARHAND_FILE_READ) {
                take_block(slot, m);
        } else {
                slot->is_done = true;
                drop_written(file);
        }
        advance(file);
}

static bool ask_block(struct slot *slot)
{
        struct farhand_file *file = slot->file;
        struct jsonw w;
        bool is_read = file->mode == FARHAND_FILE_READ;
        struct call *call = begin(file, is_read ? "fs/readBlock" : "fs/writeBlock", &w);
        if (!call)
                return false;
        begin_handle(file, &w);
        jsonw_member_u64(&w, "offset", slot->offset);
        if (is_read) {
                jsonw_member_u64(&w, "len", file->block_bytes);
        } else {
                jsonw_key(&w, "chunk");
                jsonw_base64(&w, slice_from(slot->bytes, slot->n));
        }
        slot->is_asked = end(file, call, &w, 0, on_block, slot);
        return slot->is_asked;
}

static struct slot *add_slot(struct farhand_file *file)
{
        struct slot *slot = slot_at(file, file->count++);
        char *bytes = slot->bytes ? slot->bytes : mem_alloc(file->block_bytes + 2);
        *slot = (struct slot){ .file = file, .offset = file->next_offset, .bytes = bytes };
        if (file->mode == FARHAND_FILE_READ)
                file->next_offset += file->block_bytes;
        return slot;
}

static void on_closed(UNUSED struct farhand *f, void *arg, UNUSED const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        file->is_close_asked = false;
        if (file->state != FILE_OPEN)
                return;
        if (error && is_loss(file, error))
                reopen(file);
        else if (error)
                fail(file, error);
        else
                file->state = FILE_CLOSED;
}

static void ask_close(struct farhand_file *file)
{
        struct jsonw w;
        struct call *call = begin(file, "fs/close", &w);
        if (!call)
                return;
        begin_handle(file, &w);
        file->is_close_asked = end(file, call, &w, 0, on_closed, file);
}

/* Returns whether the request for a block is to be sent now. A read is sent at once. A write is sent when its block is full, when
 * no more bytes follow, or when no other request is under way. */
static bool is_due(const struct farhand_file *file, const struct slot *slot, bool is_idle)
{
        return file->mode == FARHAND_FILE_READ || slot->n == file->block_bytes || file->is_finishing ||
               is_idle;
}

/* Sends the requests that are due: to open the file, for its blocks, and to close it. */
static void advance(struct farhand_file *file)
{
        bool is_idle = true;
        if (file->state == FILE_OPEN && file->losses != file->client->losses) {
                reopen(file); /* the connection was lost while no request was under way, so none has failed */
                return;
        }
        if (file->state == FILE_OPENING && !file->is_open_asked)
                ask_open(file);
        if (file->state == FILE_WHOLE && file->is_finishing)
                write_whole(file);
        if (file->state != FILE_OPEN)
                return;
        file->was_lost = false;
        while (file->mode == FARHAND_FILE_READ && file->count < (file->is_flowing ? file->window : 1) &&
               !(file->count > 0 && slot_at(file, file->count - 1)->is_last))
                add_slot(file);
        for (unsigned i = 0; i < file->count; i++) {
                struct slot *slot = slot_at(file, i);
                if (!slot->is_asked && !slot->is_done && is_due(file, slot, is_idle) && !ask_block(slot))
                        return;
                is_idle = is_idle && !slot->is_asked;
        }
        if (file->is_finishing && file->count == 0 && !file->is_close_asked)
                ask_close(file);
}

/* ---- public ---- */

struct farhand_file *farhand_file_open(struct farhand *f, const char *path,
                                       const struct farhand_file_options *options,
                                       struct farhand_error *ret_error)
{
        struct farhand_file_options o = FARHAND_FILE_OPTIONS_INIT;
        memcpy(&o, options, MIN(options->size, sizeof(o)));
        if (options->size == 0 || path[0] != '/' || (unsigned)o.mode > FARHAND_FILE_RESUME ||
            o.window > WINDOW_MAX || o.block_bytes > BLOCK_MAX ||
            (o.mode == FARHAND_FILE_REPLACE && o.offset > 0)) {
                error_set(ret_error, -EINVAL, "a file cannot be opened like this");
                return NULL;
        }
        if (f->state == FARHAND_CONNECTING) {
                error_set(ret_error, -ENOTCONN, "the client is not connected yet");
                return NULL;
        }
        struct farhand_file *file = mem_new(struct farhand_file);
        *file = (struct farhand_file){
                .client = f,
                .path = mem_strdup(path),
                .mode = o.mode,
                .window = o.window ? o.window : WINDOW_USUAL,
                .block_bytes = o.block_bytes ? o.block_bytes : BLOCK_USUAL,
                .next_offset = o.offset,
                .whole = BUF_INIT(WHOLE_FILE_MAX),
        };
        list_append(&f->files, &file->link);
        if (o.mode != FARHAND_FILE_READ && !farhand_has_capability(f, "fileWriteStreaming")) {
                file->state = FILE_WHOLE;
                if (o.mode == FARHAND_FILE_RESUME)
                        fail_with(file, -EOPNOTSUPP, "this server cannot resume a write");
        }
        if (o.mode == FARHAND_FILE_RESUME && !farhand_has_capability(f, "fsControlV1"))
                fail_with(file, -EOPNOTSUPP, "this server cannot resume a write");
        advance(file);
        /* Our own servers find the handle for a request that comes right behind the one that opens it. */
        if (file->is_open_asked && o.mode == FARHAND_FILE_READ && farhand_has_capability(f, "fsControlV1"))
                (void)ask_block(add_slot(file));
        return file;
}

void farhand_file_free(struct farhand_file *file)
{
        if (!file)
                return;
        struct farhand *f = file->client;
        calls_forget(f, NULL, file);
        for (unsigned i = 0; i < WINDOW_MAX; i++)
                calls_forget(f, NULL, &file->slots[i]);
        struct jsonw w;
        bool is_open = (file->state == FILE_OPENING && file->is_open_asked) || file->state == FILE_OPEN ||
                       file->state == FILE_FAILED;
        struct call *call = is_open && f->state == FARHAND_READY && file->handle[0]
                                    ? call_begin(f, "fs/close", &w, NULL)
                                    : NULL;
        if (call) {
                begin_handle(file, &w);
                jsonw_object_end(&w);
                (void)call_end(f, call, &w, 0, NULL, NULL, NULL);
        }
        for (unsigned i = 0; i < WINDOW_MAX; i++)
                free(file->slots[i].bytes);
        list_remove(&file->link);
        buf_release(&file->whole);
        free(file->path);
        free(file);
}

void client_files_release(struct farhand *f)
{
        while (!list_is_empty(&f->files))
                farhand_file_free(list_first(&f->files, struct farhand_file, link));
}

static int64_t take_whole(struct farhand_file *file, void *buf, size_t n)
{
        if (!file->is_whole_there)
                return -EAGAIN;
        n = MIN(n, file->whole.n - file->whole_at);
        if (n > 0)
                memcpy(buf, file->whole.p + file->whole_at, n);
        file->whole_at += n;
        return (int64_t)n;
}

int64_t farhand_file_read(struct farhand_file *file, void *buf, size_t n, struct farhand_error *ret_error)
{
        size_t taken = 0;
        if (file->mode != FARHAND_FILE_READ)
                return error_set(ret_error, -EBADF, "the file is not open for reading");
        if (file->state == FILE_WHOLE)
                return take_whole(file, buf, n);
        while (taken < n && file->count > 0 && slot_at(file, 0)->is_done) {
                struct slot *slot = slot_at(file, 0);
                size_t some = MIN(n - taken, slot->n - slot->at);
                if (some > 0)
                        memcpy((char *)buf + taken, slot->bytes + slot->at, some);
                slot->at += some;
                taken += some;
                if (slot->at < slot->n)
                        break;
                if (slot->is_last) {
                        file->is_at_end = true;
                        break;
                }
                file->first = (file->first + 1) % file->window;
                file->count--;
        }
        if (taken > 0 || file->is_at_end) {
                if (!file->is_at_end)
                        advance(file);
                return (int64_t)taken;
        }
        /* What came before the failure was told first. */
        return file->state == FILE_FAILED ? error_copy(ret_error, &file->failure) : -EAGAIN;
}

static int64_t put_whole(struct farhand_file *file, const void *bytes, size_t n,
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

int64_t farhand_file_write(struct farhand_file *file, const void *bytes, size_t n,
                           struct farhand_error *ret_error)
{
        size_t taken = 0;
        if (file->state == FILE_FAILED)
                return error_copy(ret_error, &file->failure);
        if (file->mode == FARHAND_FILE_READ || file->is_finishing)
                return error_set(ret_error, -EBADF, "the file is not open for writing");
        if (file->state == FILE_WHOLE)
                return put_whole(file, bytes, n, ret_error);
        while (taken < n) {
                struct slot *slot = file->count > 0 ? slot_at(file, file->count - 1) : NULL;
                bool has_room = slot && !slot->is_asked && !slot->is_done && slot->n < file->block_bytes;
                if (!has_room && file->count == file->window)
                        break;
                if (!has_room)
                        slot = add_slot(file);
                size_t some = MIN(n - taken, file->block_bytes - slot->n);
                memcpy(slot->bytes + slot->n, (const char *)bytes + taken, some);
                slot->n += some;
                file->next_offset += some;
                taken += some;
        }
        advance(file);
        return taken > 0 || n == 0 ? (int64_t)taken : -EAGAIN;
}

int farhand_file_finish(struct farhand_file *file, struct farhand_error *ret_error)
{
        if (file->mode == FARHAND_FILE_READ)
                return error_set(ret_error, -EBADF, "the file is not open for writing");
        file->is_finishing = true;
        advance(file);
        if (file->state == FILE_FAILED)
                return error_copy(ret_error, &file->failure);
        return file->state == FILE_CLOSED ? 0 : -EAGAIN;
}

static bool is_blocked(struct farhand_file *file)
{
        if (file->state == FILE_FAILED || file->state == FILE_CLOSED)
                return false;
        if (file->mode == FARHAND_FILE_READ)
                return !file->is_at_end && !file->is_whole_there &&
                       !(file->count > 0 && slot_at(file, 0)->is_done);
        if (file->is_finishing || file->state == FILE_OPENING)
                return true;
        if (file->state == FILE_WHOLE || file->count < file->window)
                return false;
        const struct slot *last = slot_at(file, file->count - 1);
        return last->is_asked || last->n == file->block_bytes;
}

int farhand_file_wait(struct farhand_file *file, int timeout_ms, struct farhand_error *ret_error)
{
        uint64_t deadline = client_wait_end(timeout_ms);
        while (is_blocked(file)) {
                int r = client_wait_until(file->client, deadline, ret_error);
                if (!is_blocked(file))
                        break;
                if (r < 0)
                        return r;
                if (r == 0)
                        return error_set(ret_error, -ETIMEDOUT, "the server has not answered in time");
        }
        bool has_more = file->mode == FARHAND_FILE_READ && file->count > 0 && slot_at(file, 0)->is_done;
        return file->state == FILE_FAILED && !has_more ? error_copy(ret_error, &file->failure) : 0;
}
