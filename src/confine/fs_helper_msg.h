/* fs_helper_msg: the messages between the server and an fs helper on a stream socket: a struct, then the number of
 * bytes that the struct gives.
 *
 * Both ends are the same executable, so structs are sent as they are. The fs helper trusts the server. The server does not
 * trust an fs helper, which works on files that anybody may have made (fs_helper_talk.c checks its messages).
 *
 *     server       the reach (reach_pack.h)
 *     fs helper    FS_HELPER_READY or FS_HELPER_FAILED
 *
 * Then for each request:
 *
 *     server       struct fs_helper_request and the params, whose slices are offsets
 *     fs helper    any of FS_HELPER_NOTE and FS_HELPER_LOCK, which the server answers with a number, and of FS_HELPER_STRIKE and
 *                  FS_HELPER_UNLOCK, which it does not answer
 *     fs helper    last, one of FS_HELPER_RESULT, FS_HELPER_ERROR, FS_HELPER_OPENED (with a descriptor), or FS_HELPER_LENT whose
 *                  descriptor the server has taken
 */
#pragma once

#include "base/slice.h"
#include "proto/method.h"

#include <limits.h>

#define FS_HELPER_REQUEST_MAX (96 * 1024 * 1024) /* the most bytes of params; more is refused */
#define FS_HELPER_REACH_MAX (16 * 1024 * 1024)
/* The most bytes of error.data: a path as a URI, in which three bytes may stand for one, an entry as JSON, and what else an error
 * has. */
#define FS_HELPER_ERROR_DATA_MAX (48 * 1024)

#define FS_HELPER_METHOD_BYTES 32

struct fs_helper_request {
        char method[FS_HELPER_METHOD_BYTES]; /* the method's name; "": the params are a struct file_open */
        uint32_t params_bytes;               /* the size of the params, which follow this struct */
        uint64_t max_message;                /* the most bytes of the answer */
};

enum fs_helper_kind {
        FS_HELPER_READY = 1,
        FS_HELPER_FAILED, /* code is the enum enter_step and op the operation that failed */
        FS_HELPER_RESULT, /* the value, as JSON */
        FS_HELPER_ERROR,  /* code, os_errno; the text, and behind it data_bytes of error.data */
        FS_HELPER_OPENED,
        FS_HELPER_LENT,   /* code: a descriptor for the server to copy; answered with 0 or -errno */
        FS_HELPER_NOTE,   /* directory, NUL, name, NUL: for the journal */
        FS_HELPER_STRIKE, /* code: what FS_HELPER_NOTE was answered with */
        FS_HELPER_LOCK,   /* struct fs_helper_lock */
        FS_HELPER_UNLOCK, /* code: what FS_HELPER_LOCK was answered with */
};

struct fs_helper_answer {
        uint32_t kind;
        int32_t code, os_errno;
        uint32_t op;
        uint32_t bytes,
                data_bytes; /* sizes of what follows this struct; data_bytes only with FS_HELPER_ERROR */
};

/* What to lock: a name in the directory (dev, ino), or without a name the file itself (fsop/lock.h). */
struct fs_helper_lock {
        uint64_t dev, ino;
        char name[NAME_MAX + 1];
};

/* Describes a struct file_open as if it were the params of a method. */
extern const struct method fs_helper_open_method;
