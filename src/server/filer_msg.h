/* filer_msg: what the server and a filer say to each other over a stream socket: a struct, then as many bytes as it says.
 *
 * Both ends are the same executable, so structs go over as they are. The server is believed by the filer; a filer, whose
 * work is done on files of anybody's making, is not believed by the server (filers.c checks what it says).
 *
 * First the server sends the law (filer_law.h), and the filer says FILER_READY or FILER_FAILED. Then for each request: the
 * params, whose slices are offsets; FILER_NOTE and FILER_LOCK may come in between, and are answered with a number, and
 * FILER_STRIKE and FILER_UNLOCK, which are not; last comes one of FILER_RESULT, FILER_ERROR and FILER_OPENED, that with a descriptor.
 */
#pragma once

#include "base/slice.h"
#include "proto/fs.h"

#include <limits.h>

#define FILER_REQUEST_MAX (96 * 1024 * 1024) /* params with all their text; the largest message is smaller */
#define FILER_LAW_MAX (16 * 1024 * 1024)

struct filer_request {
        uint32_t method; /* index into filer_methods, or FILER_OPEN */
        uint32_t bytes;
        uint64_t max_message; /* of the answer */
};

#define FILER_OPEN UINT32_MAX

/* Params of FILER_OPEN. */
struct filer_open {
        FS_PARAMS_HEAD;
        struct slice path;
        int mode; /* enum fs_open_mode, or FS_OPEN_LOOK */
        bool follow;
};

enum filer_kind {
        FILER_READY = 1,
        FILER_FAILED, /* code: enum enter_step; op */
        FILER_RESULT, /* the value, as JSON */
        FILER_ERROR,  /* code, os_errno; the text, and behind it data_bytes of error.data */
        FILER_OPENED,
        FILER_NOTE,   /* directory, NUL, name, NUL: for the journal */
        FILER_STRIKE, /* code: what FILER_NOTE was answered with */
        FILER_LOCK,   /* struct filer_lock */
        FILER_UNLOCK, /* code: what FILER_LOCK was answered with */
};

struct filer_answer {
        uint32_t kind;
        int32_t code, os_errno;
        uint32_t op;
        uint32_t bytes, data_bytes;
};

/* A name that is being written, or a file: fsop/lock.h. */
struct filer_lock {
        uint64_t dev, ino;
        char name[NAME_MAX + 1];
};

/* Which slices the params of a method hold, so that they can be sent. */
struct filer_params {
        size_t size;
        size_t count;
        size_t slices[3]; /* where in the params */
};

struct method;
extern const struct method *const filer_methods[];
extern const size_t filer_method_count;
extern const struct filer_params filer_open_params;
