/* file_blocks: the requests of a stream: they open the file, also again after a lost connection, read or write its blocks, and
 * close the file. */
#include "client/file_stream.h"

#include "base/base64.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <inttypes.h>

void file_fail(struct farhand_file *file, const struct farhand_error *error)
{
        if (file->state == FILE_FAILED)
                return;
        file->state = FILE_FAILED;
        file->failure = *error;
}

void file_fail_with(struct farhand_file *file, int code, const char *text)
{
        struct farhand_error error;
        error_set(&error, code, "%s", text);
        file_fail(file, &error);
}

/* ---- requests ---- */

void file_handle_write(struct farhand_file *file, struct jsonw *w)
{
        jsonw_object(w);
        jsonw_member_str(w, "handleId", file->handle);
}

bool file_call_end(struct farhand_file *file, struct call *call, struct jsonw *w, unsigned flags,
                   call_done done, void *arg)
{
        struct farhand_error error;
        jsonw_object_end(w);
        if (call_end(file->client, call, w, flags, done, arg, &error) == 0)
                return true;
        file_fail(file, &error);
        return false;
}

struct call *file_call_begin(struct farhand_file *file, const char *method, struct jsonw *w)
{
        struct farhand_error error;
        struct call *call = call_begin(file->client, method, w, &error);
        if (!call && error.code != -EAGAIN)
                file_fail(file, &error);
        return call;
}

/* Returns whether a request has failed because the connection was lost and will be resumed: then the file must be opened again. */
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
                file_fail_with(file, -ECONNRESET,
                               "the connection was lost, and this server cannot resume a write");
                return;
        }
        file->state = FILE_OPENING;
        file->was_lost = true;
        file->is_checked = false;
        file_advance(file);
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

/* Checks that the file did not change while the connection was lost, and goes on with the stream. */
static void on_second_stat(UNUSED struct farhand *f, void *arg, const struct farhand_metadata *metadata,
                           UNUSED const struct farhand_error *error)
{
        struct farhand_file *file = arg;
        file->is_open_asked = false;
        file->is_checked = true;
        if (!metadata || metadata->size != file->metadata.size ||
            metadata->modified_ms != file->metadata.modified_ms)
                file_fail_with(file, -ESTALE, "the file was changed while the connection was lost");
        file_advance(file);
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
                file_read_whole(file);
        } else if (error) {
                file_fail(file, error);
        } else {
                file->state = FILE_OPEN;
                file->losses = file->client->losses;
                file_advance(file);
        }
}

static void ask_open(struct farhand_file *file)
{
        static const char *const modes[] = { "read", "replace", "resume" };
        struct jsonw w;
        if (file->mode == FARHAND_FILE_READ && file->was_lost && file->has_metadata && !file->is_checked) {
                file->is_open_asked = client_stat_begin(file->client, file->path, file->sandbox,
                                                        on_second_stat, file, NULL) == 0;
                return;
        }
        struct call *call = file_call_begin(file, "fs/open", &w);
        if (!call)
                return;
        enum farhand_file_mode mode = file->mode;
        if (file->was_lost && mode == FARHAND_FILE_REPLACE)
                mode = FARHAND_FILE_RESUME; /* the bytes that are written already stay */
        (void)snprintf(file->handle, sizeof(file->handle), "f%" PRIu64, file->client->next_file++);
        file_handle_write(file, &w);
        jsonw_key(&w, "path");
        client_path_write(file->client, &w, file->path);
        if (mode != FARHAND_FILE_READ)
                jsonw_member_str(&w, "mode", modes[mode]);
        if (file->wants_lock)
                jsonw_member_bool(&w, "lock", true);
        if (file->refuses_links)
                jsonw_member_bool(&w, "followSymlinks", false);
        client_sandbox_write(&w, file->sandbox);
        file->is_open_asked = file_call_end(file, call, &w, 0, on_opened, file);
        if (file->mode == FARHAND_FILE_READ && !file->was_lost)
                (void)client_stat_begin(file->client, file->path, file->sandbox, on_first_stat, file, NULL);
}

void file_forget_calls(struct farhand_file *file)
{
        calls_forget(file->client, NULL, file);
        calls_forget(file->client, (any_function)on_first_stat, file);
        calls_forget(file->client, (any_function)on_second_stat, file);
        for (unsigned i = 0; i < WINDOW_MAX; i++)
                calls_forget(file->client, NULL, &file->slots[i]);
}

/* ---- blocks ---- */

/* Copies the bytes of an answer into the slot. */
static void take_block(struct slot *slot, const struct rpc_message *m)
{
        struct farhand_file *file = slot->file;
        _arena_ struct arena a = ARENA_INIT;
        const struct json *chunk = json_get(&m->doc, m->result, S("chunk"));
        const struct json *eof = json_get(&m->doc, m->result, S("eof"));
        if (!chunk || chunk->type != JSON_STRING || !eof) {
                file_fail_with(file, -EPROTO, "the server's answer has no block");
                return;
        }
        struct slice text = json_string(&a, &m->doc, chunk);
        ssize_t n = text.n > base64_encoded_size(file->block_bytes)
                            ? -1
                            : base64_decode(slot->bytes, text.p, text.n, NULL);
        slot->is_last = eof->type == JSON_TRUE;
        if (n < 0 || (size_t)n > file->block_bytes || (!slot->is_last && (size_t)n < file->block_bytes)) {
                file_fail_with(file, -EPROTO, "the server sent a block that was not asked for");
                return;
        }
        slot->n = (size_t)n;
        slot->at = 0;
        slot->is_done = true;
        file->is_flowing = true;
        for (unsigned i = 0; i < file->count && file_slot_at(file, i)->is_done; i++) {
                const struct slot *done = file_slot_at(file, i);
                file->done_bytes = done->offset + done->n;
                if (done->is_last) /* the blocks behind the last one lie behind the end of the file */
                        break;
        }
}

/* Frees the slots of confirmed blocks at the beginning of the ring. */
static void drop_written(struct farhand_file *file)
{
        while (file->count > 0 && file_slot_at(file, 0)->is_done) {
                file->done_bytes = file_slot_at(file, 0)->offset + file_slot_at(file, 0)->n;
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
                /* When the file could not be opened, that error counts, not the errors of its blocks. */
                if (file->state == FILE_OPEN)
                        file_fail(file, error);
                return;
        }
        if (file->mode == FARHAND_FILE_READ) {
                take_block(slot, m);
        } else {
                slot->is_done = true;
                drop_written(file);
        }
        file_advance(file);
}

bool file_ask_block(struct slot *slot)
{
        struct farhand_file *file = slot->file;
        struct jsonw w;
        bool is_read = file->mode == FARHAND_FILE_READ;
        struct call *call = file_call_begin(file, is_read ? "fs/readBlock" : "fs/writeBlock", &w);
        if (!call)
                return false;
        file_handle_write(file, &w);
        jsonw_member_u64(&w, "offset", slot->offset);
        if (is_read) {
                jsonw_member_u64(&w, "len", file->block_bytes);
        } else {
                jsonw_key(&w, "chunk");
                jsonw_base64(&w, slice_from(slot->bytes, slot->n));
        }
        slot->is_asked = file_call_end(file, call, &w, 0, on_block, slot);
        return slot->is_asked;
}

struct slot *file_add_slot(struct farhand_file *file)
{
        struct slot *slot = file_slot_at(file, file->count++);
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
                file_fail(file, error);
        else
                file->state = FILE_CLOSED;
}

static void ask_close(struct farhand_file *file)
{
        struct jsonw w;
        struct call *call = file_call_begin(file, "fs/close", &w);
        if (!call)
                return;
        file_handle_write(file, &w);
        if (file->wants_sync)
                jsonw_member_bool(&w, "sync", true);
        file->is_close_asked = file_call_end(file, call, &w, 0, on_closed, file);
}

/* Returns whether the request for a block is to be sent now. A read is sent at once. A write is sent when its block is full, when
 * no more bytes follow, or when no other request is under way. */
static bool is_due(const struct farhand_file *file, const struct slot *slot, bool is_idle)
{
        return file->mode == FARHAND_FILE_READ || slot->n == file->block_bytes || file->is_finishing ||
               is_idle;
}

void file_advance(struct farhand_file *file)
{
        bool is_idle = true;
        if (file->state == FILE_OPEN && file->losses != file->client->losses) {
                reopen(file); /* the connection was lost while no request was under way, so none has failed */
                return;
        }
        if (file->state == FILE_OPENING && !file->is_open_asked)
                ask_open(file);
        if (file->state == FILE_WHOLE && file->is_finishing)
                file_write_whole(file);
        if (file->state != FILE_OPEN)
                return;
        file->was_lost = false;
        while (file->mode == FARHAND_FILE_READ && file->count < (file->is_flowing ? file->window : 1) &&
               !(file->count > 0 && file_slot_at(file, file->count - 1)->is_last))
                file_add_slot(file);
        for (unsigned i = 0; i < file->count; i++) {
                struct slot *slot = file_slot_at(file, i);
                if (!slot->is_asked && !slot->is_done && is_due(file, slot, is_idle) && !file_ask_block(slot))
                        return;
                is_idle = is_idle && !slot->is_asked;
        }
        if (file->is_finishing && file->count == 0 && !file->is_close_asked)
                ask_close(file);
}
