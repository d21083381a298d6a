/* names: what the server says about the paths of a patch: their state, their real path, what is in them.
 *
 * Each request is sent once, and many at a time. An answer tells of a file as it was at that moment; the commit compares again.
 */
#pragma once

#include "base/map.h"
#include "patch/state.h"

struct reading;

/* What is known of one absolute path. has_look, has_real and has_link say that the server was asked for `look`, `real` and `link`; the
 * answers are there after asks_wait. has_bytes says that `bytes` is there. */
struct name {
        const char *path;
        struct names *names;
        bool has_look, has_real, has_link, has_bytes, is_content_asked;
        struct look look; /* links are followed */
        const char *real; /* the path without links; NULL: it leads nowhere, or `real_failure` */
        const struct failure *real_failure;
        const char *link;   /* the text of the link that the path is; NULL: it is none */
        struct slice bytes; /* what is in the file */
        bool is_real;       /* `path` holds no link, and none is followed to read the file */
        uint64_t room;      /* how many bytes of names::memory_left are set aside for the answer */
        const struct failure *read_failure;
        struct reading *reading; /* of a directory: the request for several of its files */
        struct entry *entry;     /* the entry in staging; NULL: not known yet */
};

struct names {
        struct asks *asks;
        struct arena *arena;
        struct map map;
        struct reading *readings;
        uint64_t memory_left;        /* how many bytes of files may still be kept in memory */
        uint64_t file_max;           /* larger files are not kept in memory */
        bool has_control, has_batch; /* what the server can do */
};

/* What a hunk wants of a path. */
struct wish {
        const char *path; /* absolute, without "..", as long as the names */
        bool is_made;     /* the hunk may make the file: a link that leads nowhere must be known as a link */
        bool is_read;     /* the hunk will need the content of the file */
};

/* `file_max` and `memory_max`: how large files may be that are kept in memory, each and all together. */
void names_begin(struct names *all, struct asks *asks, uint64_t file_max, uint64_t memory_max);
void names_release(struct names *all);

/* Asks for everything that the hunks will want, in few round trips. */
void names_prefetch(struct names *all, const struct wish *wishes, size_t count);

/* Returns a name about which nothing need have been asked yet. */
NODISCARD struct name *names_get(struct names *all, const char *path);
/* The next three functions wait for the answer if it is not there yet. */
NODISCARD const struct look *name_look(struct name *n);
NODISCARD const char *name_real(struct name *n);
const char *name_link(struct name *n);
/* Reads a regular file of that state into memory, if there is room. Returns 0; -EFBIG when there is no room; -EIO with *ret_failure. */
NODISCARD int name_read(struct name *n, const struct file_state *state, struct slice *ret,
                        const struct failure **ret_failure);

/* Returns "DIRECTORY/NAME" in the arena. */
NODISCARD const char *names_join(struct arena *a, const char *directory, const char *name);
/* Returns the directory of an absolute path. */
NODISCARD const char *names_directory(struct arena *a, const char *path);
/* Returns the last name of an absolute path; "" for "/". */
NODISCARD const char *names_last(const char *path);
