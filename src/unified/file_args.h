/* file_args: the arguments of the tools read_file, write_file, list_directory and view_image. Pure. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "unified/args.h"
#include "wire/json.h"

#define FILE_LINES 2000   /* how many lines read_file returns without a limit */
#define FILE_ENTRIES 1000 /* how many entries list_directory returns at most */

struct file_args {
        const char *path;           /* absolute, or relative to the workspace */
        const char *environment_id; /* NULL: the primary environment */
        uint64_t offset, limit;     /* read_file: the first line, from 1, and how many */
        struct slice content;       /* write_file */
        bool create_parents;        /* write_file */
        const char *after;          /* list_directory: only names behind this one; NULL: all */
};

/* Decodes `arguments` of one of these tools. Null is the same as no member. Returns 0, or -EINVAL with a sentence in err->text. */
NODISCARD int file_args_decode(struct arena *a, const struct json_doc *d, enum unified_tool tool,
                               const struct json *arguments, struct file_args *ret, struct err *err);
