/* file_stream: the public functions that read and write a file of the server as a stream. */
#include "client/file_stream.h"

#include "base/mem.h"
#include "client/error.h"

#include <errno.h>

#define WINDOW_USUAL 6
#define BLOCK_MAX ((size_t)1024 * 1024)
#define BLOCK_USUAL ((size_t)256 * 1024)

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
                .sandbox = mem_strdup(f->sandbox),
                .mode = o.mode,
                .wants_sync = o.sync && o.mode != FARHAND_FILE_READ,
                .wants_lock =
                        o.lock && o.mode != FARHAND_FILE_READ && farhand_has_capability(f, "fsControlV1"),
                .refuses_links = o.refuse_links && farhand_has_capability(f, "fsControlV1"),
                .window = o.window ? o.window : WINDOW_USUAL,
                .block_bytes = o.block_bytes ? o.block_bytes : BLOCK_USUAL,
                .next_offset = o.offset,
                .done_bytes = o.offset,
                .told_bytes = o.offset,
                .on_progress = o.on_progress,
                .arg = o.arg,
                .whole = BUF_INIT(WHOLE_FILE_MAX),
        };
        list_append(&f->files, &file->link);
        if (o.mode != FARHAND_FILE_READ && !farhand_has_capability(f, "fileWriteStreaming")) {
                file->state = FILE_WHOLE;
                if (o.mode == FARHAND_FILE_RESUME)
                        file_fail_with(file, -EOPNOTSUPP, "this server cannot resume a write");
        }
        if (file->wants_sync && !farhand_has_capability(f, "fsControlV1"))
                file_fail_with(file, -EOPNOTSUPP, "this server cannot wait for the disk");
        if (o.mode == FARHAND_FILE_RESUME && !farhand_has_capability(f, "fsControlV1"))
                file_fail_with(file, -EOPNOTSUPP, "this server cannot resume a write");
        file_advance(file);
        /* Farhand's servers (fsControlV1) do requests on a file in order, so the first block can be asked for before the file is
         * open. */
        if (file->is_open_asked && o.mode == FARHAND_FILE_READ && farhand_has_capability(f, "fsControlV1"))
                (void)file_ask_block(file_add_slot(file));
        return file;
}

void farhand_file_free(struct farhand_file *file)
{
        if (!file)
                return;
        struct farhand *f = file->client;
        file_forget_calls(file);
        struct jsonw w;
        bool is_open = (file->state == FILE_OPENING && file->is_open_asked) || file->state == FILE_OPEN ||
                       file->state == FILE_FAILED;
        struct call *call = is_open && f->state == FARHAND_READY && file->handle[0]
                                    ? call_begin(f, "fs/close", &w, NULL)
                                    : NULL;
        if (call) {
                file_handle_write(file, &w);
                jsonw_object_end(&w);
                (void)call_end(f, call, &w, 0, NULL, NULL, NULL);
        }
        for (unsigned i = 0; i < WINDOW_MAX; i++)
                free(file->slots[i].bytes);
        list_remove(&file->link);
        buf_release(&file->whole);
        free(file->path);
        free(file->sandbox);
        free(file);
}

/* Finds a file whose progress was not told. A callback may free any file, so the search begins anew after each callback. */
static struct farhand_file *find_progress(struct farhand *f)
{
        struct farhand_file *file;
        list_each (file, &f->files, link)
                if (file->on_progress && file->told_bytes != file->done_bytes)
                        return file;
        return NULL;
}

void client_files_tell(struct farhand *f)
{
        struct farhand_file *file;
        while ((file = find_progress(f))) {
                file->told_bytes = file->done_bytes;
                file->on_progress(file, file->arg, file->done_bytes,
                                  file->has_metadata ? file->metadata.size : UINT64_MAX);
        }
}

void client_files_release(struct farhand *f)
{
        while (!list_is_empty(&f->files))
                farhand_file_free(list_first(&f->files, struct farhand_file, link));
}

int64_t farhand_file_read(struct farhand_file *file, void *buf, size_t n, struct farhand_error *ret_error)
{
        size_t taken = 0;
        if (file->mode != FARHAND_FILE_READ)
                return error_set(ret_error, -EBADF, "the file is not open for reading");
        if (file->state == FILE_WHOLE)
                return file_take_whole(file, buf, n);
        while (taken < n && file->count > 0 && file_slot_at(file, 0)->is_done) {
                struct slot *slot = file_slot_at(file, 0);
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
                        file_advance(file);
                return (int64_t)taken;
        }
        /* The program has read all bytes that came before the failure, so the failure is told now. */
        return file->state == FILE_FAILED ? error_copy(ret_error, &file->failure) : -EAGAIN;
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
                return file_put_whole(file, bytes, n, ret_error);
        while (taken < n) {
                struct slot *slot = file->count > 0 ? file_slot_at(file, file->count - 1) : NULL;
                bool has_room = slot && !slot->is_asked && !slot->is_done && slot->n < file->block_bytes;
                if (!has_room && file->count == file->window)
                        break;
                if (!has_room)
                        slot = file_add_slot(file);
                size_t some = MIN(n - taken, file->block_bytes - slot->n);
                memcpy(slot->bytes + slot->n, (const char *)bytes + taken, some);
                slot->n += some;
                file->next_offset += some;
                taken += some;
        }
        file_advance(file);
        return taken > 0 || n == 0 ? (int64_t)taken : -EAGAIN;
}

int farhand_file_finish(struct farhand_file *file, struct farhand_error *ret_error)
{
        if (file->mode == FARHAND_FILE_READ)
                return error_set(ret_error, -EBADF, "the file is not open for writing");
        file->is_finishing = true;
        file_advance(file);
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
                       !(file->count > 0 && file_slot_at(file, 0)->is_done);
        if (file->is_finishing || file->state == FILE_OPENING)
                return true;
        if (file->state == FILE_WHOLE || file->count < file->window)
                return false;
        const struct slot *last = file_slot_at(file, file->count - 1);
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
        bool has_more = file->mode == FARHAND_FILE_READ && file->count > 0 && file_slot_at(file, 0)->is_done;
        return file->state == FILE_FAILED && !has_more ? error_copy(ret_error, &file->failure) : 0;
}
