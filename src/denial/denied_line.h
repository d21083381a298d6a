/* denied_line: guesses from one line of output which path or host was refused to a command. Pure.
 *
 *     touch: cannot touch 'a b': Read-only file system
 *     sh: 1: cannot create /ro/x: Permission denied
 *     tar: x: Cannot open: Permission denied
 *     curl: (7) Failed to connect to 192.0.2.1 port 80 after 0 ms: Couldn't connect to server
 */
#pragma once

#include "denial/denied.h"

/* Every slice lies in the line; p == NULL: the line does not name it. */
struct denied_line {
        const char *operation; /* "write", "connect" or "unknown" */
        bool says_write;       /* the words of the line describe a change of a file */
        struct slice path;     /* absolute */
        /* the name of a file, relative to the cwd of the command; only when there is no path */
        struct slice name;
        struct slice host, port;
};

/* Reads what the line says was refused. Returns false when the line holds no phrase of `s`. */
NODISCARD bool denied_line_read(struct denied_scan *s, struct slice line, struct denied_line *ret);
