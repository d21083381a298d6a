/* file_stream: a file of the server as a stream, with a window of blocks under way; for the three files that do it.
 *
 * Each block has a slot, in a ring in the order of the file. A slot that is read keeps its bytes until the program takes them; one
 * that is written keeps them until the server has confirmed them, so that it can be sent again. Handles belong to the connection: when
 * that was lost, the file is opened again under another id, and the blocks that are not done are asked for again.
 */
#pragma once

#include "client/client_internal.h"

#define WINDOW_MAX 32

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
        uint64_t done_bytes; /* of the file, from its beginning: here, or confirmed as written */
        uint64_t told_bytes; /* what on_progress was told last */
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
bool file_ask_block(struct slot *slot); /* false: there is no room for the request now */

/* The stream fails; the first reason counts. */
void file_fail(struct farhand_file *file, const struct farhand_error *error);
void file_fail_with(struct farhand_file *file, int code, const char *text);

/* Begins a request. NULL when there are too many (it is made later) or the file has failed. */
struct call *file_call_begin(struct farhand_file *file, const char *method, struct jsonw *w);
/* Ends it. Returns whether it was made; otherwise the file has failed. */
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
