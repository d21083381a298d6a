/* fs: params of the file methods (docs/PROTOCOL.md). Plain data; slices live as long as the request. Paths are absolute and end in a
 * NUL. */
#pragma once

#include "proto/decode.h"

/* Decodes a path of a file request. A path of another host or platform is an error with the code -32600. */
void decode_file_path(struct decoder *d, const char *key, struct slice *ret);
/* Decodes the member `sandbox`. *ret is NULL when it is absent, null or a profile that permits everything (proto/sandbox.h). */
struct sandbox_context;
void decode_file_sandbox(struct decoder *d, const struct sandbox_context **ret);
/* Members of several methods: a bool with a default, and permission bits. */
void decode_bool_or(struct decoder *d, const char *key, bool otherwise, bool *ret);
void decode_mode(struct decoder *d, bool *ret_has, uint64_t *ret);

/* The params of readFile, canonicalize, readDirectory and readLink. */
struct fs_path {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        bool follows;
};
NODISCARD params_decode fs_path_decode;

#define FS_SHA256_BYTES 32
/* What a file must be before it is written: the member `ifMatch`. */
enum fs_match { FS_MATCH_ANY, FS_MATCH_ABSENT, FS_MATCH_DIGEST, FS_MATCH_STAT };

struct fs_write_file {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        struct slice data; /* base64, as the client sent it */
        bool follows;
        bool is_atomic, makes_parents, has_mode;
        uint64_t mode;
        enum fs_match match;
        uint8_t digest[FS_SHA256_BYTES];
        uint64_t size;
        int64_t modified_ms;
};
NODISCARD params_decode fs_write_file_decode;

struct fs_create_directory {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        bool is_recursive, follows;
};
NODISCARD params_decode fs_create_directory_decode;

struct fs_get_metadata {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        bool follows, wants_digest;
};
NODISCARD params_decode fs_get_metadata_decode;

struct fs_walk {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        uint64_t max_depth, max_directories, max_entries;
        bool follows_directory_links, prunes_hidden;
};
NODISCARD params_decode fs_walk_decode;

struct fs_remove {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        bool is_recursive, is_forced, follows;
};
NODISCARD params_decode fs_remove_decode;

struct fs_copy {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice source, destination;
        bool is_recursive;
};
NODISCARD params_decode fs_copy_decode;

enum fs_open_mode { FS_OPEN_READ, FS_OPEN_REPLACE, FS_OPEN_RESUME };
#define FS_OPEN_LOOK 3 /* for the server itself: opens a directory or file only to know where it is */
struct fs_open {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice handle_id, path;
        enum fs_open_mode mode;
        bool wants_lock; /* nobody else may have it open with a lock */
        bool follows;
};
NODISCARD params_decode fs_open_decode;

struct fs_read_block {
        struct slice handle_id;
        uint64_t offset, len;
};
NODISCARD params_decode fs_read_block_decode;

struct fs_write_block {
        struct slice handle_id;
        uint64_t offset;
        struct slice chunk; /* decoded */
};
NODISCARD params_decode fs_write_block_decode;

struct fs_close {
        struct slice handle_id;
        bool wants_sync;
};
NODISCARD params_decode fs_close_decode;

struct fs_rename {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice source, destination;
        bool may_replace;
        bool follows; /* whether links in the directories are followed */
};
NODISCARD params_decode fs_rename_decode;

struct fs_symlink {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path, target;             /* the target ends in a NUL as well */
        bool follows;                          /* whether links in the directories are followed */
};
NODISCARD params_decode fs_symlink_decode;

struct fs_set_metadata {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        bool has_mode, has_modified, follows;
        uint64_t mode;
        int64_t modified_ms;
};
NODISCARD params_decode fs_set_metadata_decode;

/* --- many files at once; fs_batch.c --- */

#define FS_SCAN_MAX 4096  /* entries in one answer */
#define FS_BATCH_MAX 1024 /* files in one request */

struct fs_scan_directory {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        struct slice after; /* only names behind this one; p == NULL: all */
        uint64_t limit;
};
NODISCARD params_decode fs_scan_directory_decode;

/* The params of readFiles and writeFiles. The list stays JSON, so that one text is all that an fs helper must be sent. */
struct fs_batch {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;                     /* the directory */
        struct slice list;
};
NODISCARD params_decode fs_read_files_decode;
NODISCARD params_decode fs_write_files_decode;

struct fs_batch_file {
        struct slice name; /* one name, with a NUL behind it */
        struct slice data; /* writeFiles: base64 */
        bool has_mode, has_modified;
        uint64_t mode;
        int64_t modified_ms;
};
/* Read the list again, where the work is done. 0, or -EINVAL with err filled, which only a list that was not checked gives. */
NODISCARD int fs_batch_names(struct arena *a, const struct json_doc *doc, struct fs_batch_file **ret,
                             size_t *ret_count, struct err *err);
NODISCARD int fs_batch_files(struct arena *a, const struct json_doc *doc, struct fs_batch_file **ret,
                             size_t *ret_count, struct err *err);

struct fs_digest {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice path;
        uint64_t offset, length;
        bool follow;
};
NODISCARD params_decode fs_digest_decode;

/* --- what may be done with files; fs_access.c --- */

#define FS_ACCESS_MAX 4096 /* paths in one request */

/* The list stays JSON, as that of struct fs_batch. */
struct fs_check_access {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice list;
};
NODISCARD params_decode fs_check_access_decode;

enum fs_access { FS_ACCESS_READ, FS_ACCESS_WRITE, FS_ACCESS_REMOVE };
struct fs_access_wish {
        struct slice path;
        enum fs_access access;
};
/* Reads the list again, where the work is done. 0, or -EINVAL with err filled, which only a list that was not checked gives. */
NODISCARD int fs_access_wishes(struct arena *a, const struct json_doc *doc, struct fs_access_wish **ret,
                               size_t *ret_count, struct err *err);

/* The params of capabilityRoots/discoverV1. */
#define DISCOVER_ROOTS_MAX 128
struct discover_root {
        const struct sandbox_context *sandbox; /* NULL: none */
        struct slice id, path;
        struct slice foreign; /* instead of `path`: a URI of another host or platform */
};
struct discover_roots {
        const struct sandbox_context *sandbox; /* the sandbox of any of the roots; NULL: none */
        struct discover_root *roots;
        size_t count;
};
NODISCARD params_decode discover_roots_decode;
