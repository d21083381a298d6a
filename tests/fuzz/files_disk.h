/* files_disk: the tree of the jail, compared with the model and cleared. For fuzz_files.c. */
#pragma once

#include "base/fd.h"
#include "files_ask.h"
#include "jail.h"
#include "tree_model.h"

#include <dirent.h>

static void path_of(const struct node *n, char ret[REAL_BYTES])
{
        char below[REAL_BYTES];
        (void)snprintf(ret, REAL_BYTES, "%s", n == root ? "/" : "");
        for (; n != root; n = n->parent) {
                (void)snprintf(below, sizeof(below), "%s", ret);
                (void)snprintf(ret, REAL_BYTES, "/%s%.*s", n->name, REAL_BYTES - 64, below);
        }
}

static void compare_file(int dirfd, const struct node *n, const struct stat *st)
{
        static char bytes[2 * MIB];
        want((size_t)st->st_size == n->bytes.n && n->bytes.n <= sizeof(bytes));
        _close_ int fd = openat(dirfd, n->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        want(fd >= 0 && read(fd, bytes, sizeof(bytes)) == (ssize_t)n->bytes.n);
        want(memcmp(bytes, n->bytes.p, n->bytes.n) == 0);
}

static void compare_directory(int dirfd, const struct node *dir);

static void compare_node(int dirfd, const struct node *n)
{
        struct stat st;
        char target[REAL_BYTES];
        want(fstatat(dirfd, n->name, &st, AT_SYMLINK_NOFOLLOW) == 0);
        if (n->kind == NODE_LINK) {
                ssize_t size = readlinkat(dirfd, n->name, target, sizeof(target));
                want(size > 0 && slice_eq(slice_from(target, (size_t)size), buf_slice(&n->bytes)));
                return;
        }
        want((st.st_mode & 07777) == n->mode);
        if (n->kind == NODE_FILE) {
                want(S_ISREG(st.st_mode) && st.st_nlink == 1);
                compare_file(dirfd, n, &st);
        } else {
                want(S_ISDIR(st.st_mode));
                int fd = openat(dirfd, n->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                want(fd >= 0);
                compare_directory(fd, n);
        }
}

/* Compares a directory with its node. Closes the descriptor. */
static void compare_directory(int dirfd, const struct node *dir)
{
        DIR *d = fdopendir(dirfd);
        const struct dirent *entry;
        want(d);
        while ((entry = readdir(d))) {
                struct slice name = slice_from_str(entry->d_name);
                if (!slice_eq(name, S(".")) && !slice_eq(name, S("..")) && !node_child(dir, name)) {
                        fprintf(stderr, "%s is there\n", entry->d_name);
                        fail("a name that nobody made");
                }
        }
        for (const struct node *n = dir->children; n; n = n->next)
                compare_node(dirfd, n);
        closedir(d);
}

static void compare_all(void *arg)
{
        const struct node *dir = arg;
        char path[REAL_BYTES];
        path_of(dir, path);
        int fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        want(fd >= 0);
        compare_directory(fd, dir);
}

/* Removes all entries. None of them may have the name of a temporary file of the server. */
static void clear_directory(int dirfd)
{
        DIR *d = fdopendir(dirfd);
        const struct dirent *entry;
        must(d);
        while ((entry = readdir(d))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                want(strncmp(entry->d_name, ".farhand-", 9) != 0);
                if (unlinkat(dirfd, entry->d_name, 0) == 0)
                        continue;
                int fd = openat(dirfd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                must(fd >= 0);
                clear_directory(fd);
                must(unlinkat(dirfd, entry->d_name, AT_REMOVEDIR) == 0);
        }
        closedir(d);
}

static void clear_all(UNUSED void *arg)
{
        int fd = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        must(fd >= 0);
        clear_directory(fd);
        must(chmod("/", 0755) == 0);
}
