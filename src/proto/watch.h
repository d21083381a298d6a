/* watch: params of fs/watch, fs/unwatch (EXTENSIONS.md "Files") and fs/watchMissing (PROTOCOL.md 9.3). */
#pragma once

#include "proto/fs.h"

#define WATCH_ID_BYTES 64 /* of a watchId; longer or empty: -32602 */

struct fs_watch {
        FS_PARAMS_HEAD;
        struct slice watch_id;
        struct slice path;
        bool is_recursive;
};
NODISCARD int fs_watch_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                              void *ret, struct err *err);

struct fs_unwatch {
        struct slice watch_id;
};
NODISCARD int fs_unwatch_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                void *ret, struct err *err);

struct fs_watch_missing {
        FS_PARAMS_HEAD;
        uint64_t watch_id;
        struct slice *missing; /* paths, each with a NUL behind it */
        size_t missing_count;
        struct slice present; /* p == NULL: none */
        bool is_foreign;      /* a path is of another host or platform: nothing here can be watched */
};
NODISCARD int fs_watch_missing_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                      void *ret, struct err *err);
