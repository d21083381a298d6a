/* reach_test: file operations of a process that has a reach cannot get around it. Each test runs in a process of its own,
 * because a process keeps its reach until it ends. */
#include "reach/reach.h"

#include "base/fd.h"
#include "fsop/access.h"
#include "fsop/edit.h"
#include "fsop/fsop.h"
#include "fsop/meta.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct rig {
        char root[64];
        char path[4][256];
        unsigned next;
};

/* Returns the path of `name` below the root. It is valid until the fourth call after this one. */
static const char *at(struct rig *r, const char *name)
{
        char *path = r->path[r->next++ % ARRAY_LEN(r->path)];
        size_t n = strlen(r->root), m = strlen(name) + 1;
        ok(n + 1 + m <= sizeof(r->path[0]));
        memcpy(path, r->root, n);
        path[n] = '/';
        memcpy(path + n + 1, name, m);
        return path;
}

static void make_file(struct rig *r, const char *name)
{
        _close_ int fd = open(at(r, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        ok(fd >= 0 && write(fd, "text", 4) == 4);
}

/* Limits the process: w may be written, except for w/ro, which may be read; w/no is denied; everything else may be read. */
static void enact(struct rig *r)
{
        static struct reach_point list[3];
        static struct reach reach;
        static const char *const where[] = { "w", "w/no", "w/ro" };
        static const enum reach_kind kinds[] = { REACH_WRITE, REACH_HIDE, REACH_READ };
        for (size_t i = 0; i < ARRAY_LEN(where); i++) {
                list[i] = (struct reach_point){ .path = slice_from_str(strdup(at(r, where[i]))),
                                                .kind = kinds[i],
                                                .is_directory = true,
                                                .rule = REACH_RULE_ENTRY };
        }
        reach_sort(list, ARRAY_LEN(list));
        reach = (struct reach){
                .root = REACH_READ, .root_rule = REACH_RULE_OUTSIDE, .points = list, .count = ARRAY_LEN(list)
        };
        eq_int(reach_limit(&reach), 0);
}

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type, UNUSED struct FTW *ftw)
{
        return remove(path);
}

static void under_reach(void (*test)(struct rig *r))
{
        struct rig r = { 0 };
        snprintf(r.root, sizeof(r.root), "/tmp/fh-reach-XXXXXX");
        ok(mkdtemp(r.root) != NULL);
        static const char *const directories[] = { "w", "w/no", "w/ro", "w/sub", "o" };
        for (size_t i = 0; i < ARRAY_LEN(directories); i++)
                eq_int(mkdir(at(&r, directories[i]), 0700), 0);
        make_file(&r, "w/f");
        make_file(&r, "w/no/f");
        make_file(&r, "w/ro/f");
        make_file(&r, "o/f");
        pid_t pid = fork();
        if (pid == 0) {
                enact(&r);
                test(&r);
                _exit(0);
        }
        int status = -1;
        ok(pid > 0 && waitpid(pid, &status, 0) == pid);
        ok(nftw(r.root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
        eq_int(status, 0);
}

/* A failed check ends the child with a status other than 0, because cmocka runs in the parent. */
#define HOLDS(condition)                                                                \
        do {                                                                            \
                if (!(condition)) {                                                     \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
                        _exit(1);                                                       \
                }                                                                       \
        } while (0)

static void check_ways(struct rig *r)
{
        struct err err = ERR_INIT;
        HOLDS(symlinkat("no", reach_open(AT_FDCWD, at(r, "w"), O_PATH, 0, REACH_FOLLOW), "link") == 0);
        static const char *const denied[] = { "w/no/f",         "w/link/f",    "w/sub/../no/f", "w//no/./f",
                                              "w/link/../no/f", "o/../w/no/f", "w/no/none",     "w/no/../f" };
        for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
                struct stat st;
                HOLDS(reach_open(AT_FDCWD, at(r, denied[i]), O_RDONLY, 0, REACH_FOLLOW) == -EACCES);
                HOLDS(reach_open(AT_FDCWD, at(r, denied[i]), O_PATH, 0, REACH_FOLLOW) == -EACCES);
                HOLDS(reach_stat(AT_FDCWD, at(r, denied[i]), &st, 0) == -EACCES);
                HOLDS(reach_unlink(AT_FDCWD, at(r, denied[i]), 0) == -EACCES);
        }
        HOLDS(reach_open(AT_FDCWD, at(r, "w/link"), O_RDONLY, 0, REACH_FOLLOW) == -EACCES);
        HOLDS(reach_open(AT_FDCWD, at(r, "w/link"), O_PATH, 0, REACH_NO_LINKS) == -ELOOP);
        HOLDS(reach_open(AT_FDCWD, at(r, "w/link/f"), O_RDONLY, 0, REACH_NO_LINKS) == -ENOTDIR);
        HOLDS(fsop_rename(at(r, "w/no"), at(r, "w/yes"), true, true, &err) == -EBUSY);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "w/no"), true, true, &err) == -EBUSY);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "w/ro/g"), true, true, &err) == -EROFS);
        HOLDS(fsop_rename(at(r, "w/ro/f"), at(r, "w/g"), true, true, &err) == -EROFS);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "w/sub/g"), true, true, &err) == 0);
}

TEST(no_way_leads_around_a_reach)
{
        under_reach(check_ways);
}

static void check_trees(struct rig *r)
{
        struct err err = ERR_INIT;
        struct stat st;
        HOLDS(fsop_remove(at(r, "w/ro"), true, false, true, &err) == -EROFS);
        HOLDS(fsop_remove(at(r, "w/no"), true, false, true, &err) == -EACCES);
        HOLDS(fsop_copy(at(r, "w"), at(r, "o/copy"), true, NULL, &err) == -EROFS);
        HOLDS(fsop_copy(at(r, "w/no"), at(r, "w/copy"), true, NULL, &err) == -EACCES);
        HOLDS(fsop_copy(at(r, "o"), at(r, "w/copy"), true, NULL, &err) == 0);
        HOLDS(fsop_remove(at(r, "w/copy"), true, false, true, &err) == 0);
        HOLDS(fsop_create_directory(at(r, "w/ro/a/b"), true, true, &err) == -EROFS);
        HOLDS(fsop_create_directory(at(r, "w/a/b"), true, true, &err) == 0);
        HOLDS(reach_stat(AT_FDCWD, at(r, "w/ro/f"), &st, 0) == 0 && st.st_size == 4);
}

TEST(trees_are_judged_name_by_name)
{
        under_reach(check_trees);
}

static void check_attributes(struct rig *r)
{
        struct err err = ERR_INIT;
        const struct fs_changes mode = { .has_mode = true, .mode = 0640 };
        char *real = NULL;
        HOLDS(fsop_set_metadata(at(r, "o/f"), &mode, true, &err) == -EROFS);
        HOLDS(fsop_set_metadata(at(r, "w/ro/f"), &mode, true, &err) == -EROFS);
        HOLDS(fsop_set_metadata(at(r, "w/f"), &mode, true, &err) == 0);
        HOLDS(reach_real(at(r, "w/sub/../f"), &real) == 0 && strcmp(real, at(r, "w/f")) == 0);
        free(real);
        HOLDS(reach_real(at(r, "w/no/f"), &real) == -EACCES);
        HOLDS(reach_symlink("x", AT_FDCWD, at(r, "w/ro/l")) == -EROFS);
}

TEST(attributes_are_changed_where_content_may_be)
{
        under_reach(check_attributes);
}

/* ---- what is told of a refusal */

/* Returns "OPERATION PATH" of the refusal that an error comes from, the path below the root; "-" when it is no refusal. */
static const char *told(const struct rig *r, const struct err *err)
{
        static char text[512];
        struct reach_refusal refusal;
        size_t root = strlen(r->root) + 1;
        if (!reach_blamed(err->os_errno, &refusal))
                return "-";
        HOLDS(refusal.path.n >= root && memcmp(refusal.path.p, r->root, root - 1) == 0);
        (void)snprintf(text, sizeof(text), "%s %.*s",
                       refusal.operation == REACH_OPERATION_READ ? "read" : "write",
                       (int)(refusal.path.n - root), refusal.path.p + root);
        return text;
}

#define IS_TOLD(r, err, text) HOLDS(strcmp(told((r), (err)), (text)) == 0)

static void check_telling(struct rig *r)
{
        struct err err = ERR_INIT;
        struct stat st;
        int fd;
        reach_begin(REACH_OPERATION_READ);
        HOLDS(fsop_open_regular(at(r, "w/no/f"), true, &fd, &st, &err) == -EACCES);
        IS_TOLD(r, &err, "read w/no/f");
        /* What is there, and how the rest is spelled, makes no difference. */
        HOLDS(fsop_open_regular(at(r, "w/no/none/./x"), true, &fd, &st, &err) == -EACCES);
        IS_TOLD(r, &err, "read w/no/none/x");
        HOLDS(fsop_open_regular(at(r, "w/no/../f"), true, &fd, &st, &err) == -EACCES);
        IS_TOLD(r, &err, "read w/no");
        reach_begin(REACH_OPERATION_WRITE);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "o/g"), true, true, &err) == -EROFS);
        IS_TOLD(r, &err, "write o/g");
        HOLDS(fsop_remove(at(r, "w/no"), true, false, true, &err) == -EACCES);
        IS_TOLD(r, &err, "write w/no");
        HOLDS(fsop_copy(at(r, "w/no/f"), at(r, "w/g"), false, NULL, &err) == -EACCES);
        IS_TOLD(r, &err, "read w/no/f");
        HOLDS(fsop_copy(at(r, "w/f"), at(r, "w/no/g"), false, NULL, &err) == -EACCES);
        IS_TOLD(r, &err, "write w/no/g");
        HOLDS(fsop_copy(at(r, "w/f"), at(r, "o/g"), false, NULL, &err) == -EROFS);
        IS_TOLD(r, &err, "write o/g");
        HOLDS(fsop_create_directory(at(r, "w/sub"), false, true, &err) == -EEXIST);
        IS_TOLD(r, &err, "-");
}

TEST(a_refusal_is_told_with_what_was_meant)
{
        under_reach(check_telling);
}

/* A refusal that a request has survived is not the reason of a later failure with the same errno. */
static void check_survived(struct rig *r)
{
        struct err err = ERR_INIT;
        struct stat st;
        reach_begin(REACH_OPERATION_READ);
        HOLDS(reach_stat(AT_FDCWD, at(r, "w/no/f"), &st, 0) == -EACCES);
        reach_begin(REACH_OPERATION_READ);
        HOLDS(fsop_fail(&err, EACCES) == -EACCES);
        IS_TOLD(r, &err, "-");
        HOLDS(reach_unlink(AT_FDCWD, at(r, "w/no/f"), 0) == -EACCES);
        HOLDS(reach_unlink(AT_FDCWD, at(r, "w/none"), 0) == -ENOENT);
        HOLDS(fsop_fail(&err, ENOENT) == -ENOENT);
        IS_TOLD(r, &err, "-");
        HOLDS(fsop_fail(&err, EACCES) == -EACCES);
        IS_TOLD(r, &err, "write w/no/f");
        /* The kernel gives the same error for something else. */
        HOLDS(reach_mkdir(AT_FDCWD, at(r, "o/new"), 0700) == -EROFS);
        HOLDS(reach_stat(AT_FDCWD, at(r, "w/f/x"), &st, 0) == -ENOTDIR);
        HOLDS(fsop_fail(&err, ENOTDIR) == -ENOTDIR);
        IS_TOLD(r, &err, "-");
        HOLDS(fsop_fail(&err, EROFS) == -EROFS);
        IS_TOLD(r, &err, "write o/new");
        struct reach_refusal refusal;
        HOLDS(!reach_blamed(EACCES, &refusal) && !reach_blamed(0, &refusal));
}

TEST(a_refusal_that_was_survived_is_not_told)
{
        under_reach(check_survived);
}

static void check_asking(struct rig *r)
{
        static const struct {
                const char *path;
                enum access_wish wish;
                int result;
                const char *told;
        } rows[] = {
                { "w/f", ACCESS_TO_READ, 0, NULL },
                { "w/f", ACCESS_TO_WRITE, 0, NULL },
                { "w/f", ACCESS_TO_REMOVE, 0, NULL },
                { "w/new/deep", ACCESS_TO_WRITE, 0, NULL },
                { "w/no/f", ACCESS_TO_READ, -EACCES, "read w/no/f" },
                { "w/no/f", ACCESS_TO_WRITE, -EACCES, "write w/no/f" },
                { "w/no/new/deep", ACCESS_TO_WRITE, -EACCES, "write w/no/new/deep" },
                { "w/ro/f", ACCESS_TO_WRITE, -EROFS, "write w/ro/f" },
                { "w/ro/f", ACCESS_TO_REMOVE, -EROFS, "write w/ro/f" },
                { "w/ro", ACCESS_TO_REMOVE, -EBUSY, "write w/ro" },
                { "o/new/deep", ACCESS_TO_WRITE, -EROFS, "write o/new" },
                { "w/none", ACCESS_TO_REMOVE, -ENOENT, "-" },
                { "w/sub", ACCESS_TO_WRITE, -EISDIR, "-" },
                { "w/f/x", ACCESS_TO_WRITE, -ENOTDIR, "-" },
                { "w/new/../../o/x", ACCESS_TO_WRITE, -EROFS, "write o/x" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct err err = ERR_INIT;
                int result = fsop_check_access(at(r, rows[i].path), rows[i].wish, &err);
                if (result != rows[i].result || (result < 0 && strcmp(told(r, &err), rows[i].told) != 0)) {
                        fprintf(stderr, "%s: %d %s\n", rows[i].path, result, told(r, &err));
                        _exit(1);
                }
        }
}

TEST(asking_is_answered_as_the_operation_would_be)
{
        under_reach(check_asking);
}
