/* result: what applying a patch is told, and what it tells. */
#pragma once

#include "base/arena.h"
#include "patch/ask.h"

struct patch_options {
        const char *cwd;     /* absolute, on the server: what paths in the patch are relative to */
        const char *sandbox; /* JSON of the member `sandbox` of file requests; NULL: none */
        bool is_partial;     /* hunks before the one that fails stay applied, as with the reference program */
        /* Where records are kept (patch/store.h), and the text that stands for the environment there, which must be the same for the same
         * files. Without `state_dir` an interrupted patch cannot be repaired, and no patch can be undone. */
        const char *state_dir, *environment_key;
        /* The only real paths that may be read and changed, ending with NULL, as patch_look has found them. A path that leads elsewhere is
         * refused before anything is changed, and patches that were interrupted are not repaired. NULL: all paths are allowed. */
        const char *const *real_paths;
        /* For files of this machine without a sandbox: used when the client is NULL. */
        const struct patch_near *near;
};

/* What a hunk has done. */
struct patch_done {
        char letter;          /* 'A', 'M' or 'D' */
        struct slice path;    /* as the patch spells it; of a move: the new path */
        struct slice from;    /* of a move: the old path; p is NULL otherwise */
        const char *absolute; /* the absolute path */
        uint64_t added_lines, removed_lines;
};

struct patch_result {
        struct arena arena; /* everything else lies here */
        int exit_code;      /* 0, or 1 */
        const char *out;    /* what the program prints to stdout */
        const char *
                error; /* what the program prints to stderr; in the words of the reference program where that fails, too */
        const char
                *notes; /* what the program prints to stderr before the error: what was repaired; mostly "" */
        const char *reason; /* why the patch failed, in the words of the server; NULL: `error` says all */
        struct patch_done *done;
        size_t done_count;
        bool is_applied;  /* the files are changed; with is_partial perhaps not all */
        bool is_conflict; /* a file was changed meanwhile */
        bool is_lost;     /* the connection was lost: what was half done is repaired by the next run */
        bool can_undo;
        const char *const *real_paths; /* of patch_look: the real paths, ending with NULL */
        bool is_elsewhere; /* a path leads to another place than those of the options. Nothing was changed, unless is_applied */
        bool is_denied; /* the permission profile refused the patch. Nothing was changed; it can be applied again with another profile */
        /* The first denial; denied_entry may be NULL. */
        const char *denied_path, *denied_operation, *denied_rule, *denied_entry;
        const struct denial **denials; /* all denials, up to LIMIT_PATCH_DENIALS */
        size_t denial_count;           /* how many denials are in `denials` */
        size_t denied_count;           /* how many denials there were */
};

/* Writes the denials in the form that denials of commands have: an array of objects. *ret_omitted is how many denials the array leaves
 * out. Paths are spelled as the server of `f` spells them; with `f` NULL as they are. The string is on the heap; NULL: the array would
 * be too long. */
char *patch_denials_json(const struct patch_result *r, const struct farhand *f, size_t *ret_omitted);

void patch_result_release(struct patch_result *r);
#define _patch_result_ CLEANUP(patch_result_release)
