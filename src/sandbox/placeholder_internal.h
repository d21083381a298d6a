/* placeholder_internal: the paths and the counted users of placeholders, for placeholder.c, which makes them, and
 * placeholder_remove.c. */
#pragma once

#include "sandbox/placeholder.h"

#include <limits.h>
#include <sys/stat.h>

/* A path, as the directory and the name in it. */
struct placeholder_entry {
        char directory[PATH_MAX]; /* the path of the directory, without the leading slash */
        char name[NAME_MAX + 1];
};

/* Splits an absolute path into directory and name. Returns 0, -EINVAL or -ENAMETOOLONG. */
NODISCARD int placeholder_entry_parse(const char *path, struct placeholder_entry *ret);
/* Opens the directory of an entry, which need not be readable. */
NODISCARD int placeholder_entry_open(const struct placeholder_entry *e);
/* Opens the directory of a placeholder and fills *ret with its stat. Returns -ESTALE when it is not the directory that the plan
 * saw. */
NODISCARD int placeholder_open_directory(const struct placeholder_entry *e,
                                         const struct image_placeholder *placeholder, struct stat *ret);

/* The lock files in which the users of a placeholder are counted, and its byte in each. A negative descriptor: there is no such
 * file. */
struct placeholder_users {
        int own, common;
        uint64_t own_byte, common_byte;
};

/* Returns the locks that count the users of a placeholder, with the descriptors of the keeper. */
NODISCARD struct placeholder_users placeholder_users_of(const struct image *i,
                                                        const struct image_placeholder *placeholder);
void placeholder_users_drop(const struct placeholder_users *l);
/* May other users create files in this directory? */
NODISCARD bool placeholder_is_shared(const struct stat *dir, uint32_t uid);

static inline struct image_placeholder *image_placeholders(const struct image *i)
{
        return (struct image_placeholder *)(uintptr_t)image_at(i, i->placeholders);
}
