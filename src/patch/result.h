/* result: what applying a patch is told, and what it tells. */
#pragma once

#include "base/arena.h"
#include "patch/ask.h"

struct patch_options {
        const char *cwd;     /* absolute, on the server: what paths in the patch are relative to */
        const char *sandbox; /* JSON of the member `sandbox` of file requests; NULL: none */
        bool is_partial;     /* hunks before the one that fails stay applied, as with the reference program */
        /* Where records are kept (patch/store.h), and what stands for the environment there: the same text for the same files. Without
         * `state_dir` a patch that is interrupted cannot be repaired, and none undone. */
        const char *state_dir, *environment_key;
        /* The real paths that may be read and changed, ending with NULL, as patch_look has found them: what leads elsewhere is refused
         * before anything is changed, and patches that were interrupted are not repaired. NULL: all paths. */
        const char *const *places;
        /* For files of this machine without a sandbox: used when the client is NULL. */
        const struct patch_near *near;
};

/* What a hunk has done. */
struct patch_done {
        char letter;          /* 'A', 'M' or 'D' */
        struct slice path;    /* as the patch spells it; of a move: the new one */
        struct slice from;    /* of a move: the old one; p is NULL otherwise */
        const char *absolute; /* the absolute path */
        uint64_t added_lines, removed_lines;
};

struct patch_result {
        struct arena arena; /* everything else lies here */
        int exit_code;      /* 0, or 1 */
        const char *out;    /* what the program prints to stdout */
        const char *error; /* what it prints to stderr: as the reference program, where that would fail too */
        const char *notes; /* what it prints to stderr before that: what was repaired; "" mostly */
        const char *reason; /* why it failed, in the words of the server; NULL: the error says all */
        struct patch_done *done;
        size_t done_count;
        bool is_applied;  /* the files are changed; with is_partial perhaps not all */
        bool is_conflict; /* a file was changed meanwhile */
        bool is_lost;     /* the connection was lost: what was half done is repaired by the next run */
        bool can_undo;
        const char *const *places; /* of patch_look: the real paths, ending with NULL */
        bool is_elsewhere; /* a path leads to another place than those of the options. Nothing was changed, unless is_applied */
        bool is_denied; /* the permission profile refused the patch. Nothing was changed; it can be applied again with another profile */
        const char *denied_path, *denied_operation, *denied_rule, *denied_entry; /* entry: may be NULL */
        const struct denial **denials;     /* of which this is the first */
        size_t denial_count, denied_count; /* of these are there; were found */
};

/* Writes the denials as denials of commands are written: an array of objects. *ret_omitted: how many were found that are not there. `f` may be
 * NULL: paths are written as they are, else as that server spells them. The string is on the heap; NULL: they are too long. */
char *patch_denials_json(const struct patch_result *r, const struct farhand *f, size_t *ret_omitted);

void patch_result_release(struct patch_result *r);
#define _patch_result_ CLEANUP(patch_result_release)
