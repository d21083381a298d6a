/* draft: what the hunks of a patch do to the files, worked out in memory before anything is changed. */
#pragma once

#include "hunk/parse.h"
#include "patch/staging.h"

/* What one hunk has done. The contents stay until the draft is released with draft_keep_contents, else until a later hunk changes the file. */
struct drafted {
        const struct hunk *hunk;
        const char *path;            /* absolute; of a move: the new one */
        const char *from;            /* of a move: the absolute path of the source; else NULL */
        const struct content *old;   /* before the hunk; NULL: there was no file, or it was not read */
        const struct content *fresh; /* after the hunk; NULL: there is no file then */
        struct arena text;           /* holds the bytes of `fresh`, when they are freed before the draft */
        const struct edits *edits;   /* HUNK_UPDATE: the edits that turn `old` into `fresh` */
        bool was_there;              /* a file was there */
        uint64_t added_lines, removed_lines;
};

struct draft {
        struct names names;
        struct staging staging;
        struct drafted *list; /* the hunks that went well */
        size_t count;
        size_t begun; /* how many hunks of the list were begun: `count`, or one more */
        bool keeps_contents;
        uint64_t
                contents_left; /* keeps_contents: how many bytes of changed files may still be kept in memory */
        const char *error; /* why the hunk behind those of the list failed, without LF; NULL: all went well */
        const struct failure
                *failure; /* the failure of the server that is the reason; NULL: the reason is another */
        const char *failed_path; /* the absolute path of the hunk that failed */
        /* The real paths of the files that the hunks read and change, ending with NULL. */
        const char **real_paths;
        size_t real_path_count, real_path_room;
        struct map used;    /* the paths of `real_paths`, to find them */
        struct map allowed; /* is_bound: the only real paths that hunks may read and change */
        bool is_bound, is_look;
        bool is_elsewhere; /* the hunk failed because its path leads to a real path that is not allowed */
};

/* Begins an empty draft, which draft_release must end. The memory of the draft is in the arena of the asks. */
void draft_begin(struct draft *d, struct asks *asks);
void draft_release(struct draft *d);
/* From now on a hunk fails that would read or change another real path than these, which end with NULL. Files are read at their real paths,
 * without following links where the server can do that. */
void draft_bind(struct draft *d, const char *const *real_paths);
/* From now on only the real paths are found out: no content is read, and every update fits. */
void draft_only_look(struct draft *d);
/* From now on the content before and after each hunk is kept, to be shown. */
void draft_keep_contents(struct draft *d);
/* Works out all hunks, up to the first that fails. With `needs_old` the files that are overwritten or removed are read too, so that the
 * changes can be taken back later. */
void draft_patch(struct draft *d, const struct patch *patch, const char *cwd, bool needs_old);

/* Returns the absolute form of a path in a patch, without "." and ".."; NULL when there is none. */
NODISCARD const char *draft_path(struct arena *a, const char *cwd, struct slice path);
