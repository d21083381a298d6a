/* staging: the files that a patch names, as they are on the server and as the hunks so far have left them, in memory.
 *
 * An entry is one name in one real directory. Several paths of a patch may lead to the same entry, by links or by other spellings.
 * Later hunks see what earlier hunks have done, because both work on the same entries. Nothing here changes anything on
 * the server.
 */
#pragma once

#include "patch/content.h"
#include "patch/names.h"

/* The last thing that a hunk has done to an entry, for messages. */
enum entry_step { STEP_NONE, STEP_WRITE, STEP_DELETE, STEP_ORIGINAL };

struct entry {
        const char *path;     /* the real path of its directory, and its name */
        struct entry *parent; /* the entry of the directory; NULL: the directory is on the server */
        struct name *name;    /* a path that leads to the entry; NULL: the server has nothing there */
        /* What the server has. */
        struct file_state before;
        const struct failure *failure; /* why the server could not tell what it has; NULL: it could */
        const struct content *old;     /* what was in the regular file; NULL: not read */
        struct entry *target;          /* where the link leads; NULL: nowhere */
        /* What the hunks so far have made of the entry. */
        enum file_kind kind;
        const struct content *content; /* FILE_REGULAR; NULL: `old` */
        struct arena *text; /* holds the bytes of `content` and nothing else; NULL: they lie elsewhere */
        bool has_mode;      /* the file gets `mode` */
        uint32_t mode;
        enum entry_step step;
        size_t order;      /* the number of the last step among the steps of all entries, from 1 */
        const char *shown; /* the absolute path in the patch */
};

struct staging {
        struct names *names;
        struct arena *arena;
        struct map map;      /* path to struct entry */
        struct entry **list; /* all entries, in the order in which they were found */
        size_t count, room;
        size_t steps; /* how many steps the hunks have made */
        bool reads_real_paths; /* files are read at their real paths, without following links where the server can do that */
};

void staging_begin(struct staging *s, struct names *names);
void staging_release(struct staging *s);

/* Finds the entry of an absolute path. With `follows` it is the entry that links lead to; NULL: the links lead nowhere. */
NODISCARD struct entry *staging_find(struct staging *s, const char *path, bool follows);
/* Returns what is in a regular file now, read into memory when there is room; NULL with *ret_failure when it cannot be read. */
NODISCARD const struct content *staging_content(struct staging *s, struct entry *e,
                                                const struct failure **ret_failure);
/* Reads what was in a file that is overwritten or removed, if it can be kept. */
void staging_keep(struct staging *s, struct entry *e);
/* Makes the missing directories above an entry. Returns whether the entry can be made. */
NODISCARD bool staging_make_parents(struct entry *e, const char *shown);
