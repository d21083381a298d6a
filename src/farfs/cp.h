/* cp: what the parts of `farhand cp` share: sides, directories, entries, and what is counted.
 *
 * A side is a machine: this one, or an environment that a client is connected to. What is copied goes from a directory of one side
 * to a directory of another. Names come from servers and are hostile: each is one name of at most 255 bytes, and on this machine it
 * is opened in an open directory without following a link, so that nothing is written outside of the destination.
 *
 * Two ways lead from side to side. A file of at most CP_SMALL_BYTES goes with others of its directory in one request
 * (fs/readFiles, fs/writeFiles), several requests under way at once. Any other file goes as a stream into its part,
 * the file `.NAME.farhand-part` beside the destination, which is renamed to NAME when it is complete. A part that an earlier copy has
 * left is continued when its digest is that of the beginning of the source. Servers without the capability fsBatchV1 have streams only.
 *
 * Everything that waits calls cp_wait; the callbacks of answers never wait.
 */
#pragma once

#include "base/list.h"
#include "farfs/fs.h"

#include <sys/stat.h>

#define CP_NAME_MAX 255
#define CP_DEPTH_MAX 200                    /* of directories: each holds a descriptor */
#define CP_SMALL_BYTES ((size_t)64 * 1024)  /* the largest file that goes with others */
#define CP_BATCH_BYTES ((size_t)128 * 1024) /* of contents in one request */
#define CP_BATCH_FILES 256                  /* in one request */
#define CP_BATCHES_MAX 4                    /* requests under way: a server works on four of one connection */
#define CP_CALLS_MAX 64 /* requests of any kind under way while the next entry is looked at */
#define CP_PAGE 2048    /* names in one answer */
#define CP_PART_BYTES ((uint64_t)64 << 20) /* the most that one digest covers */
#define CP_SIDES_MAX 16                    /* environments in one command */

enum cp_kind { CP_NOTHING, CP_FILE, CP_DIRECTORY, CP_LINK, CP_OTHER };

struct cp_meta {
        enum cp_kind kind; /* CP_NOTHING: there is nothing of that name */
        bool has_mode;     /* false: the server does not tell the mode */
        uint32_t mode;     /* permission bits, without set-user-id and set-group-id */
        uint64_t size;
        int64_t modified_ms;
};

struct cp_entry {
        const char *name;
        struct cp_meta meta;
        const char *target; /* of a link; NULL: not known */
};

struct cp_side {
        struct fs fs;     /* fs.client NULL: this machine */
        const char *name; /* of the environment, as the operand has it; NULL: that of the options */
        bool has_batch;   /* fsBatchV1 */
        bool was_told;    /* the user knows what a copy does not keep there */
};

/* A directory of a side, alive while something under way needs it. */
struct cp_dir {
        struct cp *cp;
        struct cp_side *side;
        char *path; /* on this machine only for complaints; on a server absolute, and used by requests */
        int fd;     /* -1 on a server */
        unsigned refs;
        unsigned depth;
        bool is_new; /* this command has made the directory: nothing is in there but what was copied */
        /* The mode and the time that the directory gets when all is in it; kind CP_NOTHING: it keeps its own. */
        struct cp_meta result;
};

struct cp_counts {
        uint64_t files, directories, links, bytes; /* copied */
        uint64_t unchanged;                        /* files that were there already */
        uint64_t resumed_bytes;                    /* bytes of files that an earlier copy has left */
        uint64_t verified, failed;                 /* files */
};

struct cp_check; /* a file that is to be verified */
struct cp_batch; /* files of one directory that go together */

struct cp {
        struct remote options;                                       /* --env and --url */
        bool is_recursive, is_verified, is_json, is_quiet, is_exact; /* is_exact: DST is the copy itself */
        struct cp_side near;
        struct cp_side *sides[CP_SIDES_MAX]; /* environments */
        size_t side_count;
        struct cp_counts counts;
        unsigned under_way;     /* requests that wait for their answers */
        struct cp_batch *batch; /* that is being filled; NULL: none */
        struct list checks;     /* cp_check::link */
        struct {
                bool is_shown;
                uint64_t begun_ms, shown_ms;
                uint64_t file_size, file_done; /* of the stream under way; size 0: none, or not known */
                const char *name;
        } progress;
};

/* ---- cp_side.c ---- */

/* Returns the side that an operand names, connected, and its path in *ret_path; NULL: stderr was told why not. */
struct cp_side *cp_side_of(struct cp *cp, const char *operand, const char **ret_path);
void cp_sides_release(struct cp *cp);
/* Returns whether the connection to an environment is lost for good. */
NODISCARD bool cp_is_lost(const struct cp *cp);
/* Waits until an answer comes, a descriptor (-1: none) has one of `events`, or a moment has passed; then handles the answers that have
 * come. Never called in a callback. */
void cp_wait(struct cp *cp, int fd, short events);
/* Waits until at most `n` requests are under way, and verifies what has arrived. */
void cp_settle(struct cp *cp, unsigned n);
/* Say "PATH/NAME: WHY" on stderr (name NULL: the directory itself); the exit code will be 1. */
void cp_complain(struct cp_dir *dir, const char *name, const struct farhand_error *error);
void cp_complain_errno(struct cp_dir *dir, const char *name, int os_errno);
void cp_complain_text(struct cp_dir *dir, const char *name, const char *text);
/* Says once for a server what a copy does not keep there. */
void cp_tell_lack(struct cp_side *side);
static inline bool cp_is_near(const struct cp_side *side)
{
        return !side->fs.client;
}
/* Both return the path of a name in a directory (name NULL: of the directory itself), to be freed. cp_path_json returns the path as a JSON
 * string for a request. */
NODISCARD char *cp_path(const struct cp_dir *dir, const char *name);
NODISCARD char *cp_path_json(const struct cp_dir *dir, const char *name);
/* Calls a method and waits. *ret_result (may be NULL) is to be freed. */
NODISCARD int cp_call(struct cp_side *side, const char *method, const char *params, char **ret_result,
                      struct farhand_error *ret_error);

/* ---- cp_dir.c ---- */

/* Opens a directory that the user has named. NULL: stderr was told. */
NODISCARD struct cp_dir *cp_dir_open(struct cp *cp, struct cp_side *side, const char *path);
/* Opens a directory in another one, no link followed. */
NODISCARD struct cp_dir *cp_dir_enter(struct cp_dir *parent, const char *name);
/* Opens a directory at the destination, no link followed, and makes it if it is not there. `existing` says what has the name now. */
NODISCARD struct cp_dir *cp_dir_make(struct cp_dir *parent, const char *name, const struct cp_meta *wanted,
                                     enum cp_kind existing);
struct cp_dir *cp_dir_ref(struct cp_dir *dir);
/* NULL is fine. With its last reference a directory that was copied gets its mode and time. */
void cp_dir_unref(struct cp_dir *dir);
static inline void cp_dir_unrefp(struct cp_dir **dir)
{
        cp_dir_unref(*dir);
}
#define _cp_dir_ CLEANUP(cp_dir_unrefp)
/* Looks at a name, no link followed. Returns 0, or -1; then stderr was told. */
NODISCARD int cp_look(struct cp_dir *dir, const char *name, struct cp_meta *ret);
void cp_meta_from_stat(const struct stat *st, struct cp_meta *ret);
/* Sets mode and time of a name at the destination (NULL: of the directory itself). The answer of a server is not waited for. */
void cp_set_meta(struct cp_dir *dir, const char *name, const struct cp_meta *meta);
/* Converts milliseconds since 1970. */
struct timespec cp_time(int64_t ms);

/* ---- cp_list.c ---- */

/* The names in a directory, sorted by bytes, in pages. */
struct cp_list {
        struct cp_dir *dir;
        struct arena arena; /* of this page */
        struct cp_entry *entries;
        size_t count, at;
        bool has_more;
        char *after; /* the last name of this page */
};
void cp_list_begin(struct cp_list *list, struct cp_dir *dir);
void cp_list_release(struct cp_list *list);
#define _cp_list_ CLEANUP(cp_list_release)
/* Returns the next entry, valid until the next call; NULL at the end, or with *ret_failed set: then stderr was told. */
NODISCARD const struct cp_entry *cp_list_next(struct cp_list *list, bool *ret_failed);
/* Returns the entry of this name, or NULL. Names must be asked for in sorted order. */
NODISCARD const struct cp_entry *cp_list_find(struct cp_list *list, const char *name);
/* Returns whether this can be the name of a file in a directory. */
NODISCARD bool cp_is_name(struct slice name);

/* ---- cp_tree.c ---- */

/* Copies one entry of a directory to a name in another. `existing` is what is there under that name. */
void cp_entry(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name,
              const struct cp_entry *existing);
/* Copies everything in a directory into another directory. */
void cp_tree(struct cp_dir *from, struct cp_dir *to);

/* ---- cp_near.c ---- */

/* The name of a part: of the file that is renamed to its destination when it is complete. */
struct cp_part {
        char name[CP_NAME_MAX + 1];
};
NODISCARD struct cp_part cp_part_name(const char *name);
/* Opens a regular file for reading. Returns a descriptor, or -errno; -EINVAL: it is not regular. */
NODISCARD int cp_near_open(int dirfd, const char *name, struct stat *ret);
/* Writes a small file, in place of a file or link of that name. Returns 0 or -errno. */
NODISCARD int cp_near_write(int dirfd, const char *name, struct slice content, const struct cp_meta *meta);
NODISCARD int cp_near_write_all(int fd, struct slice content);
/* Sets mode and time of a file that is complete. Returns 0 or -errno. */
NODISCARD int cp_near_finish(int fd, const struct cp_meta *meta);

/* ---- cp_small.c ---- */

/* Returns whether files of up to CP_SMALL_BYTES can go together between these sides. */
NODISCARD bool cp_small_is_possible(const struct cp_dir *from, const struct cp_dir *to);
/* Adds a file to the request that is being filled. Whether the copy succeeds is known when the answer comes. */
void cp_small(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name);
/* Sends the request that is being filled, if there is one. */
void cp_small_flush(struct cp *cp);

/* ---- cp_large.c ---- */

void cp_large(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name);
/* Copy our stdin to a file of an environment, and a file of an environment to our stdout. */
void cp_stdin(struct cp_dir *to, const char *name);
void cp_stdout(struct cp_dir *from, const char *name);

/* ---- cp_digest.c ---- */

/* Compares up to `length` bytes of two files by digests, part by part. Returns 1 when they are equal, 0 when not, -1 when a
 * digest could not be made; then stderr was told, unless is_quiet. */
NODISCARD int cp_compare(struct cp_dir *a, const char *a_name, struct cp_dir *b, const char *b_name,
                         uint64_t length, bool is_quiet);
/* Counts a file that has been copied. With --verify the copy is compared later. */
void cp_done(struct cp_dir *from, const char *from_name, struct cp_dir *to, const char *to_name,
             uint64_t bytes);
/* Counts a file that was there already. With --verify it is compared later. */
void cp_was_there(struct cp_dir *from, const char *from_name, struct cp_dir *to, const char *to_name);
/* Compares the files that wait to be verified. */
void cp_checks_run(struct cp *cp);

/* ---- cp_progress.c ---- */

void cp_progress_begin(struct cp *cp);
void cp_progress_update(struct cp *cp);
/* Removes the line of progress, so that something else can be printed. */
void cp_progress_clear(struct cp *cp);
