/* fs: what the verbs of `farhand fs` share: their frame, paths, complaints, and names for a terminal or a program.
 *
 * A verb goes on after an operand that failed, and its exit code is 1 in the end; 255 when the server could not be reached, or was
 * lost. Names are bytes: a terminal gets them escaped, everything else as they are, JSON as text and as a file: URI.
 */
#pragma once

#include "base/args.h"
#include "cli/remote.h"
#include "wire/jsonw.h"

#include <stdio.h>

#define FS_FAILED 1
#define FS_LOST 255

struct fs {
        struct remote remote; /* the first member: the callbacks of the library get its address */
        struct farhand *client;
        const char *cwd;  /* where relative paths begin; NULL: not known yet */
        bool is_terminal; /* stdout is one */
        bool has_colours;
        bool has_failed; /* something could not be done */
        void (*on_notification)(struct fs *fs, const char *method,
                                const char *params); /* set before fs_begin */
};

/* Parses the arguments, of which at least `min` and at most `max` are operands (max -1: any number), and connects. Returns -1 with the
 * index of the first operand in *ret_rest; else the exit code. Ends with fs_end in both cases. */
NODISCARD int fs_begin(struct fs *fs, const struct args *spec, int argc, char **argv, int min, int max,
                       int *ret_rest);
/* Disconnects. `code` is what fs_begin returned; the exit code of the verb is returned. */
NODISCARD int fs_end(struct fs *fs, int code);
/* Returns whether there is no use in going on: the server is lost. */
NODISCARD bool fs_is_lost(const struct fs *fs);

/* Returns the absolute path, in the arena; NULL: stderr was told why not. */
NODISCARD const char *fs_path(struct fs *fs, const char *given);
/* Returns DIRECTORY/NAME, and the last name of a path (not empty), in the arena. */
NODISCARD const char *fs_join(struct fs *fs, const char *directory, const char *name);
NODISCARD const char *fs_last_name(struct fs *fs, const char *path);

/* Print "farhand: PATH: WHY" on stderr; the exit code will be 1. */
void fs_complain(struct fs *fs, const char *path, const struct farhand_error *error);
void fs_complain_errno(struct fs *fs, const char *path, int os_errno);

enum fs_kind { FS_OTHER, FS_FILE, FS_PROGRAM, FS_DIRECTORY, FS_LINK };
NODISCARD enum fs_kind fs_kind_of(const struct farhand_metadata *m);
/* Prints a name or a path, in the colour of its kind. */
void fs_print_name(struct fs *fs, const char *name, enum fs_kind kind);

/* JSON, for programs: "path" is a file: URI. */
void fs_json_path(struct jsonw *w, const char *key, const char *path);
void fs_json_metadata(struct jsonw *w, const struct farhand_metadata *m);
/* Ends the JSON text and prints it as a line. */
void fs_json_line(struct jsonw *w, struct buf *text);
#define FS_JSON_MAX ((size_t)1024 * 1024)

/* "drwxr-xr-x", or "d?????????" of a server that does not tell. */
void fs_mode_text(const struct farhand_metadata *m, char ret[11]);
/* "2026-01-31 23:59", with seconds when asked for. */
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
