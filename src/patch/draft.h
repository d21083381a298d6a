/* plan: what the hunks of a patch do to the files, worked out in memory before anything is changed. */
#pragma once

#include "hunk/parse.h"
#include "patch/overlay.h"

/* What one hunk has done. */
struct planned {
        const struct hunk *hunk;
        const char *path;            /* absolute; of a move: the new one */
        const char *from;            /* of a move: the absolute path of the source; else NULL */
        const struct content *old;   /* before the hunk; NULL: there was no file, or it was not read */
        const struct content *fresh; /* behind it; NULL: no file */
        const struct edits *edits;   /* HUNK_UPDATE: what makes the one of the other */
        bool was_there;              /* a file was there */
        uint64_t added_lines, removed_lines;
};

struct plan {
        struct names names;
        struct overlay overlay;
        struct planned *list; /* the hunks that went well */
        size_t count;
        const char *error; /* why the next hunk failed, without LF; NULL: all went well */
        const struct failure
                *failure; /* the failure of the server that is the reason; NULL: the reason is another */
        const char *failed_path; /* the absolute path of that hunk */
        /* The real paths of the files that the hunks read and change, ending with NULL. */
        const char **places;
        size_t place_count, place_room;
        struct map used;    /* the same, to find them */
        struct map allowed; /* is_bound: the real paths that may be among them */
        bool is_bound, is_look;
        bool is_elsewhere; /* the hunk failed because its path leads to one that is not allowed */
};

/* `needs_old`: what is overwritten or removed is read too, so that it can be taken back later. The memory of the plan is in the arena
 * of the asks. Always ends with plan_release. */
void plan_begin(struct plan *p, struct asks *asks);
void plan_release(struct plan *p);
/* From now on a hunk fails that would read or change another real path than these, which end with NULL. What is read is read there, where the
 * server can do that without following links. */
void plan_bind(struct plan *p, const char *const *places);
/* From now on only the real paths are found out: no content is read, and every update fits. */
void plan_only_look(struct plan *p);
/* Works out all hunks, up to the first that fails. */
void plan_patch(struct plan *p, const struct patch *patch, const char *cwd, bool needs_old);

/* Returns the absolute path of a path in a patch, without "." and ".."; NULL when it cannot be one. */
NODISCARD const char *plan_path(struct arena *a, const char *cwd, struct slice path);
