/* law_test: what a law answers, by path; and that no way leads around it. */
#include "fsop/law.h"

#include "base/fd.h"
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

static bool is_key(UNUSED void *arg, struct slice path)
{
        return path.n > 4 && memcmp(path.p + path.n - 4, ".key", 4) == 0;
}

/* ---- answers */

static const struct law_point points[] = {
        { { "/w", 2 }, LAW_WRITE, true },
        { { "/w/.git", 7 }, LAW_COVER, true },
        { { "/w/file", 7 }, LAW_COVER, false },
        { { "/w/none", 7 }, LAW_HIDE, true },
        { { "/w/none/some", 12 }, LAW_READ, true },
        { { "/w/pin", 6 }, LAW_WRITE, true },
        { { "/w/pin/ro", 9 }, LAW_READ, true },
        { { "/w/secret", 9 }, LAW_HIDE, false },
        { { "/x", 2 }, LAW_PASS, true },
};
static const struct law some = { .root = LAW_READ, .points = points, .count = ARRAY_LEN(points) };
static const struct law keyed = {
        .root = LAW_READ, .points = points, .count = ARRAY_LEN(points), .is_denied = is_key
};

TEST(the_deepest_point_decides)
{
        eq_int(law_judge_write(&some, S("/etc/passwd")), -EROFS);
        eq_int(law_judge_read(&some, S("/etc/passwd")), 0);
        eq_int(law_judge_write(&some, S("/w/a")), 0);
        eq_int(law_judge_write(&some, S("/ww")), -EROFS);
        eq_int(law_judge_write(&some, S("/w/pin/ro/a")), -EROFS);
        eq_int(law_judge_read(&some, S("/w/none")), -EACCES);
        eq_int(law_judge_read(&some, S("/w/none/a")), -EACCES);
        eq_int(law_judge_read(&some, S("/w/none/some/a")), 0);
        eq_int(law_judge_write(&some, S("/w/none/some/a")), -EROFS);
        eq_int(law_judge_search(&some, S("/w/none")), -EACCES);
        eq_int(law_judge_search(&some, S("/x")), 0);
        eq_int(law_judge_read(&some, S("/x")), -EACCES);
        eq_int(law_judge_read(&some, S("/x/beside")), -ENOENT);
        eq_int(law_judge_make(&some, S("/x/beside")), -EROFS);
        eq_int(law_judge_write(&some, S("/w/none")), -EACCES);
        eq_int(law_judge_write(&some, S("/w/secret")), -EROFS);
        eq_int(law_judge_search(&some, S("/w/secret")), -ENOTDIR);
}

TEST(a_point_stays_where_it_is)
{
        eq_int(law_judge_unmake(&some, S("/w/pin")), -EBUSY);
        eq_int(law_judge_unmake(&some, S("/w/pin/ro")), -EBUSY);
        eq_int(law_judge_unmake(&some, S("/w/none")), -EBUSY);
        eq_int(law_judge_unmake(&some, S("/w")), -EROFS);
        eq_int(law_judge_unmake(&some, S("/w/a")), 0);
        eq_int(law_judge_unmake(&some, S("/w/pin/a")), 0);
        eq_int(law_judge_unmake(&some, S("/w/none/a")), -EACCES);
        eq_int(law_judge_unmake(&some, S("/w/pin/ro/a")), -EROFS);
}

TEST(what_must_not_come_into_being_does_not)
{
        eq_int(law_judge_make(&some, S("/w/.git")), -EEXIST);
        eq_int(law_judge_make(&some, S("/w/.git/a")), -EROFS);
        eq_int(law_judge_write(&some, S("/w/.git")), -EISDIR);
        eq_int(law_judge_write(&some, S("/w/file")), -EROFS);
        eq_int(law_judge_make(&some, S("/w/new")), 0);
        eq_int(law_judge_make(&some, S("/new")), -EROFS);
}

TEST(a_pattern_holds_for_what_is_not_there_yet)
{
        eq_int(law_judge_make(&keyed, S("/w/a.key")), -EACCES);
        eq_int(law_judge_read(&keyed, S("/w/a.key")), -EACCES);
        eq_int(law_judge_read(&keyed, S("/w/a.key/below")), -EACCES);
        eq_int(law_judge_unmake(&keyed, S("/w/a.key")), -EACCES);
        eq_int(law_judge_make(&keyed, S("/w/a")), 0);
}

/* ---- ways; each test in a process of its own, because a law is for ever */

struct rig {
        char root[64];
        char path[4][256];
        unsigned next;
};

/* A path below the root, until the fourth call after it. */
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

/* w may be written but for w/ro; w/no is denied; o is outside, and may be read. */
static void enact(struct rig *r)
{
        static struct law_point list[3];
        static struct law law;
        static const char *const where[] = { "w", "w/no", "w/ro" };
        static const enum law_kind kinds[] = { LAW_WRITE, LAW_HIDE, LAW_READ };
        for (size_t i = 0; i < ARRAY_LEN(where); i++) {
                list[i] = (struct law_point){ slice_from_str(strdup(at(r, where[i]))), kinds[i], true };
        }
        law_sort(list, ARRAY_LEN(list));
        law = (struct law){ .root = LAW_READ, .points = list, .count = ARRAY_LEN(list) };
        eq_int(law_enact(&law), 0);
}

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int type, UNUSED struct FTW *ftw)
{
        return remove(path);
}

static void under_law(void (*test)(struct rig *r))
{
        struct rig r = { 0 };
        snprintf(r.root, sizeof(r.root), "/tmp/fh-law-XXXXXX");
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

/* In the child nobody hears of a failed check but by how it ends. */
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
        HOLDS(symlinkat("no", law_open(AT_FDCWD, at(r, "w"), O_PATH, 0, LAW_FOLLOW), "link") == 0);
        static const char *const denied[] = { "w/no/f",         "w/link/f",    "w/sub/../no/f", "w//no/./f",
                                              "w/link/../no/f", "o/../w/no/f", "w/no/none",     "w/no/../f" };
        for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
                struct stat st;
                HOLDS(law_open(AT_FDCWD, at(r, denied[i]), O_RDONLY, 0, LAW_FOLLOW) == -EACCES);
                HOLDS(law_open(AT_FDCWD, at(r, denied[i]), O_PATH, 0, LAW_FOLLOW) == -EACCES);
                HOLDS(law_stat(AT_FDCWD, at(r, denied[i]), &st, 0) == -EACCES);
                HOLDS(law_unlink(AT_FDCWD, at(r, denied[i]), 0) == -EACCES);
        }
        HOLDS(law_open(AT_FDCWD, at(r, "w/link"), O_RDONLY, 0, LAW_FOLLOW) == -EACCES);
        HOLDS(law_open(AT_FDCWD, at(r, "w/link"), O_PATH, 0, LAW_NO_LINKS) == -ELOOP);
        HOLDS(law_open(AT_FDCWD, at(r, "w/link/f"), O_RDONLY, 0, LAW_NO_LINKS) == -ENOTDIR);
        HOLDS(fsop_rename(at(r, "w/no"), at(r, "w/yes"), true, &err) == -EBUSY);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "w/no"), true, &err) == -EBUSY);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "w/ro/g"), true, &err) == -EROFS);
        HOLDS(fsop_rename(at(r, "w/ro/f"), at(r, "w/g"), true, &err) == -EROFS);
        HOLDS(fsop_rename(at(r, "w/f"), at(r, "w/sub/g"), true, &err) == 0);
}

TEST(no_way_leads_around_a_law)
{
        under_law(check_ways);
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
        HOLDS(law_stat(AT_FDCWD, at(r, "w/ro/f"), &st, 0) == 0 && st.st_size == 4);
}

TEST(trees_are_judged_name_by_name)
{
        under_law(check_trees);
}

static void check_attributes(struct rig *r)
{
        struct err err = ERR_INIT;
        const struct fs_changes mode = { .has_mode = true, .mode = 0640 };
        char *real = NULL;
        HOLDS(fsop_set_metadata(at(r, "o/f"), &mode, true, &err) == -EROFS);
        HOLDS(fsop_set_metadata(at(r, "w/ro/f"), &mode, true, &err) == -EROFS);
        HOLDS(fsop_set_metadata(at(r, "w/f"), &mode, true, &err) == 0);
        HOLDS(law_real(at(r, "w/sub/../f"), &real) == 0 && strcmp(real, at(r, "w/f")) == 0);
        free(real);
        HOLDS(law_real(at(r, "w/no/f"), &real) == -EACCES);
        HOLDS(law_symlink("x", AT_FDCWD, at(r, "w/ro/l")) == -EROFS);
}

TEST(attributes_are_changed_where_content_may_be)
{
        under_law(check_attributes);
}
