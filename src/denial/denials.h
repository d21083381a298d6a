/* denials: collects from the output of a failed command what was refused to it, without duplicates. Pure.
 *
 * The caller feeds pieces of output, oldest first. Lines are put together here, separately for stdout (or the terminal) and
 * for stderr. Everything is bounded, because commands choose what they print.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "denial/denied_line.h"

#define DENIALS_MAX 32          /* denials that are collected; more are left out */
#define DENIALS_LINE_BYTES 4096 /* a longer line is ignored */
/* How many bytes of lines with a phrase (denied.h) are examined; later lines are ignored. */
#define DENIALS_READ_BYTES 65536
#define DENIALS_PATH_BYTES 512 /* a longer path is left out */

/* One denial. `path` and `address` have p == NULL when they are not known. */
struct denial {
        const char *operation; /* as in denied_line.h */
        bool says_write;       /* as in denied_line.h; true when at least one of the lines says so */
        struct slice path;
        struct slice address; /* for the operation "connect": HOST or HOST:PORT */
};

struct denials {
        struct denial list[DENIALS_MAX]; /* no two alike */
        size_t count;
        bool has_more;      /* there was no room for further denials */
        struct arena arena; /* holds the texts of the list */
        struct denied_scan scan;
        struct slice cwd;
        size_t read_bytes; /* counts up to DENIALS_READ_BYTES */
        struct {
                struct buf bytes; /* the beginning of an unfinished line */
                bool is_too_long;
        } line[2];
};

/* Begins with an empty list. `is_offline`: an unreachable network counts as a refusal. `cwd` is absolute: relative names are
 * resolved in it, and all paths lose "." and "..". When `cwd` is not known (p == NULL), only absolute paths count. */
void denials_init(struct denials *d, bool is_offline, struct slice cwd);
void denials_release(struct denials *d);

void denials_feed(struct denials *d, bool is_stderr, struct slice bytes);
/* Ends the output: a last line without a newline is read. */
void denials_end(struct denials *d);
