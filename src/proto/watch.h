/* watch: params of fs/watch, fs/unwatch and fs/watchMissing (docs/PROTOCOL.md). */
#pragma once

#include "proto/fs.h"

#define WATCH_ID_BYTES 64 /* the longest watchId; a longer or empty one is -32602 */

struct fs_watch {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice watch_id;
        struct slice path;
        bool is_recursive;
};
NODISCARD params_decode fs_watch_decode;

struct fs_unwatch {
        struct slice watch_id;
};
NODISCARD params_decode fs_unwatch_decode;

struct fs_watch_missing {
        const struct sandbox_context *sandbox; /* NULL: none */
        uint64_t watch_id;
        struct slice *missing; /* paths, each with a NUL behind it */
        size_t missing_count;
        struct slice present; /* an existing path, whose removal is reported too; p == NULL: none */
        bool is_foreign;      /* a path is of another host or platform: nothing here can be watched */
};
NODISCARD params_decode fs_watch_missing_decode;
