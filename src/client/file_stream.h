/* file_stream: a file of the server as a stream, with a window of blocks under way. Only file_stream.c, file_blocks.c and
 * file_whole.c include this header.
 *
 * Each block has a slot, in a ring in the order of the file. When a file is read, a slot keeps its bytes until the program takes
 * them. When a file is written, a slot keeps its bytes until the server has confirmed them, so that they can be sent again. Handles
 * belong to the connection: after a lost connection the file is opened again under another handle, and the blocks that are not done
 * are asked for again.
 */
#pragma once

#include "client/client.h"

#define WINDOW_MAX 32

enum file_state {
        FILE_OPENING, /* also when the file must be opened again */
        FILE_OPEN,
        FILE_WHOLE, /* the server has no blocks: `whole` is or becomes the content */
        FILE_CLOSED,
        FILE_FAILED,
};

struct slot {
        struct farhand_file *file;
        uint64_t offset;
        size_t n, at; /* how many bytes the block has, and how many of them the program has taken */
        bool is_asked;
        bool is_done; /* reading: the bytes have come */
        bool is_last; /* reading: the file ends behind these bytes */
        char *bytes;  /* room for block_bytes, and two more for the rounding of base64 */
};

struct farhand_file {
        struct list link; /* farhand::files */
        struct farhand *client;
        char *path;
        char *sandbox; /* the sandbox of the client when the stream was begun, as JSON; NULL: none */
        enum farhand_file_mode mode;
        bool wants_sync; /* writing: fs/close waits for the disk */
        bool refuses_links, wants_lock;
        enum file_state state;
        struct farhand_error failure;
        char handle[24];
        uint64_t losses; /* farhand::losses when the handle was opened */
        bool is_open_asked;
        bool was_lost;   /* the connection was lost, and the file is opened again */
        bool is_checked; /* the file opened again was compared with `metadata` */
        bool has_metadata;
        struct farhand_metadata metadata; /* reading: as it was when the file was opened first */
        unsigned window;
        size_t block_bytes;
        struct slot slots[WINDOW_MAX];
        unsigned first, count; /* the slots in use: the index of the first, and how many */
        uint64_t next_offset;
        bool is_flowing;   /* reading: a block has come, so the whole window may be asked for */
        bool is_at_end;    /* reading: the program has taken all bytes */
        bool is_finishing; /* writing: the program has given all bytes */
        bool is_close_asked;
        bool is_whole_there;
        struct buf whole;
        size_t whole_at;
        uint64_t
                done_bytes; /* how many bytes from the beginning of the file have come, or are confirmed as written */
        uint64_t told_bytes; /* done_bytes when on_progress was called last */
        void (*on_progress)(struct farhand_file *file, void *arg, uint64_t done_bytes, uint64_t total_bytes);
        void *arg;
};

/* Returns the i-th slot in the order of the file. */
static inline struct slot *file_slot_at(struct farhand_file *file, unsigned i)
{
        return &file->slots[(file->first + i) % file->window];
}

/* ---- file_blocks.c ---- */

/* Sends the requests that are due: to open the file, for its blocks, and to close it. */
void file_advance(struct farhand_file *file);
struct slot *file_add_slot(struct farhand_file *file);
bool file_ask_block(struct slot *slot);            /* false: there is no room for the request now */
void file_forget_calls(struct farhand_file *file); /* nobody waits for their answers any more */

/* Makes the stream fail. Later failures do not replace the first. */
void file_fail(struct farhand_file *file, const struct farhand_error *error);
void file_fail_with(struct farhand_file *file, int code, const char *text);

/* Begins a request. Returns NULL when there are too many requests, so that this one is made later, or when the file has failed. */
struct call *file_call_begin(struct farhand_file *file, const char *method, struct jsonw *w);
/* Ends a request. Returns whether the request was made; otherwise the file has failed. */
bool file_call_end(struct farhand_file *file, struct call *call, struct jsonw *w, unsigned flags,
                   call_done done, void *arg);
/* Begins the params of a request on the handle. */
void file_handle_write(struct farhand_file *file, struct jsonw *w);

/* ---- file_whole.c ---- */

void file_read_whole(struct farhand_file *file);
void file_write_whole(struct farhand_file *file);
int64_t file_take_whole(struct farhand_file *file, void *buf, size_t n);
int64_t file_put_whole(struct farhand_file *file, const void *bytes, size_t n,
                       struct farhand_error *ret_error);
