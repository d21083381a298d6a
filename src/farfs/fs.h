/* fs: what the verbs of `farhand fs` share: their frame, paths, complaints, and names for a terminal or a program.
 *
 * A verb goes on after an operand that failed, and then its exit code is 1. The exit code is 255 when the server could not be
 * reached, or was lost. Names are bytes: they are escaped for a terminal, unchanged for other outputs, and both text and a file:
 * URI in JSON.
 */
#pragma once

#include "base/args.h"
#include "cli/remote.h"
#include "wire/jsonw.h"

#include <stdio.h>

#define FS_FAILED 1
#define FS_LOST 255

struct fs {
        struct remote
                remote; /* must be the first member: callbacks of the library get the address of `remote` */
        struct farhand *client;
        const char *cwd;  /* the directory where relative paths begin; NULL: not known yet */
        bool is_terminal; /* stdout is a terminal */
        bool has_colours;
        bool has_failed; /* an operand has failed */
        void (*on_notification)(struct fs *fs, const char *method,
                                const char *params); /* set before fs_begin */
};

/* Parses the arguments, of which at least `min` and at most `max` are operands (max -1: any number), and connects. Returns -1 with
 * the index of the first operand in *ret_rest, or else the exit code of the verb. In both cases the caller calls fs_end. */
NODISCARD int fs_begin(struct fs *fs, const struct args *spec, int argc, char **argv, int min, int max,
                       int *ret_rest);
/* Disconnects. `code` is what fs_begin returned. Returns the exit code of the verb. */
NODISCARD int fs_end(struct fs *fs, int code);
/* Returns whether the server is lost, so that the verb must end. */
NODISCARD bool fs_is_lost(const struct fs *fs);

/* Returns the absolute path of `given`, in the arena, or NULL after it has printed why not on stderr. */
NODISCARD const char *fs_path(struct fs *fs, const char *given);
/* fs_join returns DIRECTORY/NAME, and fs_last_name the last name of a path, which is not empty. Both are in the arena. */
NODISCARD const char *fs_join(struct fs *fs, const char *directory, const char *name);
NODISCARD const char *fs_last_name(struct fs *fs, const char *path);

/* These two functions print "farhand: PATH: WHY" on stderr, and make the exit code 1. */
void fs_complain(struct fs *fs, const char *path, const struct farhand_error *error);
void fs_complain_errno(struct fs *fs, const char *path, int os_errno);

enum fs_kind { FS_OTHER, FS_FILE, FS_PROGRAM, FS_DIRECTORY, FS_LINK };
NODISCARD enum fs_kind fs_kind_of(const struct farhand_metadata *m);
/* Prints a name or a path, in the colour of its kind. */
void fs_print_name(struct fs *fs, const char *name, enum fs_kind kind);

/* These two functions write members of a JSON object: a path as a file: URI, and metadata. */
void fs_json_path(struct jsonw *w, const char *key, const char *path);
void fs_json_metadata(struct jsonw *w, const struct farhand_metadata *m);
/* Ends the JSON text and prints it as a line. */
void fs_json_line(struct jsonw *w, struct buf *text);
#define FS_JSON_MAX ((size_t)1024 * 1024)

/* Writes a mode like "drwxr-xr-x", or "d?????????" when the server does not tell the mode. */
void fs_mode_text(const struct farhand_metadata *m, char ret[11]);
/* Writes a time like "2026-01-31 23:59", with seconds when `with_seconds`. */
void fs_time_text(int64_t ms, bool with_seconds, char ret[32]);

int fs_ls(int argc, char **argv);
int fs_stat(int argc, char **argv);
int fs_tree(int argc, char **argv);
int fs_cat(int argc, char **argv);
int fs_get(int argc, char **argv);
int fs_put(int argc, char **argv);
int fs_rm(int argc, char **argv);
int fs_mv(int argc, char **argv);
int fs_mkdir(int argc, char **argv);
int fs_watch(int argc, char **argv);
