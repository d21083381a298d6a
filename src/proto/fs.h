/* fs: params of the file methods (PROTOCOL.md section 9, EXTENSIONS.md "Files"). Plain data; slices live as long as the
 * request. Paths are absolute and end in a NUL. */
#pragma once

#include "proto/decode.h"

/* The one home of the path rule of file requests: a path of another host or platform is -32600 here. */
void decode_file_path(struct decoder *d, const char *key, struct slice *ret);
/* The member `sandbox`: absent, null and profiles that permit everything give NULL (proto/sandbox.h). */
struct sandbox_context;
void decode_file_sandbox(struct decoder *d, const struct sandbox_context **ret);
/* The same where nothing can be enforced: another one is refused. */
void decode_no_sandbox(struct decoder *d);

/* Every params that may have a sandbox begin with it (server/filers.h). */
#define FS_PARAMS_HEAD const struct sandbox_context *box

/* readFile, canonicalize, readDirectory, readLink */
struct fs_path {
        FS_PARAMS_HEAD;
        struct slice path;
        bool follow;
};
NODISCARD int fs_path_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

#define FS_SHA256_BYTES 32
enum fs_match { FS_MATCH_ANY, FS_MATCH_ABSENT, FS_MATCH_DIGEST, FS_MATCH_STAT };

struct fs_write_file {
        FS_PARAMS_HEAD;
        struct slice path;
        struct slice data; /* base64, as it came */
        bool follow;
        bool is_atomic, create_parents, has_mode;
        uint64_t mode;
        enum fs_match match;
        uint8_t digest[FS_SHA256_BYTES];
        uint64_t size;
        int64_t modified_ms;
};
NODISCARD int fs_write_file_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                   void *ret, struct err *err);

struct fs_create_directory {
        FS_PARAMS_HEAD;
        struct slice path;
        bool recursive, follow;
};
NODISCARD int fs_create_directory_decode(struct arena *a, const struct json_doc *doc,
                                         const struct json *params, void *ret, struct err *err);

struct fs_get_metadata {
        FS_PARAMS_HEAD;
        struct slice path;
        bool follow, digest;
};
NODISCARD int fs_get_metadata_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                     void *ret, struct err *err);

struct fs_walk {
        FS_PARAMS_HEAD;
        struct slice path;
        uint64_t max_depth, max_directories, max_entries;
        bool follow_directory_links, prune_hidden;
};
NODISCARD int fs_walk_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

struct fs_remove {
        FS_PARAMS_HEAD;
        struct slice path;
        bool recursive, force, follow;
};
NODISCARD int fs_remove_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                               void *ret, struct err *err);

struct fs_copy {
        FS_PARAMS_HEAD;
        struct slice source, destination;
        bool recursive;
};
NODISCARD int fs_copy_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

enum fs_open_mode { FS_OPEN_READ, FS_OPEN_REPLACE, FS_OPEN_RESUME };
#define FS_OPEN_LOOK 3 /* between server and filer: a directory or file, to know where it is */
struct fs_open {
        FS_PARAMS_HEAD;
        struct slice handle_id, path;
        enum fs_open_mode mode;
};
NODISCARD int fs_open_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

struct fs_read_block {
        struct slice handle_id;
        uint64_t offset, len;
};
NODISCARD int fs_read_block_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                   void *ret, struct err *err);

struct fs_write_block {
        struct slice handle_id;
        uint64_t offset;
        struct slice chunk; /* decoded */
};
NODISCARD int fs_write_block_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                    void *ret, struct err *err);

struct fs_close {
        struct slice handle_id;
        bool sync;
};
NODISCARD int fs_close_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                              void *ret, struct err *err);

struct fs_rename {
        FS_PARAMS_HEAD;
        struct slice source, destination;
        bool replace;
};
NODISCARD int fs_rename_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                               void *ret, struct err *err);

struct fs_symlink {
        FS_PARAMS_HEAD;
        struct slice path, target; /* the target ends in a NUL too */
};
NODISCARD int fs_symlink_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                void *ret, struct err *err);

struct fs_set_metadata {
        FS_PARAMS_HEAD;
        struct slice path;
        bool has_mode, has_modified, follow;
        uint64_t mode;
        int64_t modified_ms;
};
NODISCARD int fs_set_metadata_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                     void *ret, struct err *err);

/* capabilityRoots/discoverV1 */
#define DISCOVER_ROOTS_MAX 128
struct discover_root {
        struct slice id, path;
        struct slice foreign; /* in place of the path: the URI of somewhere else, as it came */
};
struct discover_roots {
        struct discover_root *roots;
        size_t count;
};
NODISCARD int discover_roots_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                    void *ret, struct err *err);
