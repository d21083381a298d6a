/* git_access_test: which repositories --git opens, what stays read-only in them, and the words of refusals. */
#include "cmd/git_access.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct workspace {
        struct arena arena;
        struct git_access git;
        struct err err;
        char root[PATH_MAX];
};

static const char *at(struct workspace *w, const char *name)
{
        return arena_printf(&w->arena, "%s/%s", w->root, name);
}

static void workspace_open(struct workspace *w)
{
        *w = (struct workspace){ .arena = ARENA_INIT, .git = GIT_ACCESS_INIT, .err = ERR_INIT };
        char template[] = "/tmp/fh-git-XXXXXX";
        must(mkdtemp(template) && realpath(template, w->root));
}

static void workspace_close(struct workspace *w)
{
        static const char *const names[] = { ".git/HEAD", ".git/objects", ".git/refs", ".git/commondir",
                                             ".git/worktrees" };
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                (void)remove(at(w, names[i]));
        (void)remove(at(w, ".git"));
        must(rmdir(w->root) == 0);
        git_access_release(&w->git);
        arena_release(&w->arena);
}

static void make_file(struct workspace *w, const char *name, const char *text)
{
        _close_ int fd = open(at(w, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        must(fd >= 0 && fd_write_all(fd, slice_from_str(text)) == 0);
}

static void make_repository(struct workspace *w)
{
        must(mkdir(at(w, ".git"), 0700) == 0 && mkdir(at(w, ".git/objects"), 0700) == 0 &&
             mkdir(at(w, ".git/refs"), 0700) == 0);
        make_file(w, ".git/HEAD", "ref: refs/heads/main\n");
}

static int add(struct workspace *w)
{
        return git_access_add(&w->git, &w->arena, slice_from_str(w->root), &w->err);
}

/* Checks that the workspace is refused; `why` is the end of the error text, behind the path of its `.git`. */
static void is_refused(struct workspace *w, const char *why)
{
        eq_int(add(w), -EINVAL);
        eq_str(w->err.text, arena_printf(&w->arena, "--git: %s/.git %s", w->root, why));
        eq_str(w->err.step, "git");
        eq_u64(w->git.count, 0);
}

/* Returns the entries as lines such as "write .git", with paths relative to the workspace. */
static const char *entries(struct workspace *w)
{
        const char *text = "";
        for (size_t i = 0; i < w->git.count; i++) {
                const struct profile_entry *e = &w->git.entries[i];
                text = arena_printf(&w->arena, "%s%s %s\n", text,
                                    e->access == ACCESS_WRITE ? "write" : "read",
                                    e->text.p + strlen(w->root) + 1);
        }
        return text;
}

TEST(a_workspace_without_a_repository_adds_nothing)
{
        struct workspace w;
        workspace_open(&w);
        eq_int(add(&w), 0);
        eq_u64(w.git.found, 0);
        eq_u64(w.git.count, 0);
        ok(!git_access_is_broken(&w.git));
        workspace_close(&w);
}

TEST(a_repository_is_opened_but_for_what_git_takes_commands_from)
{
        struct workspace w;
        workspace_open(&w);
        make_repository(&w);
        must(mkdir(at(&w, ".git/worktrees"), 0700) == 0);
        eq_int(add(&w), 0);
        eq_u64(w.git.found, 1);
        eq_str(entries(&w), "write .git\nread .git/hooks\nread .git/config\nread .git/config.worktree\n"
                            "read .git/worktrees\n");
        workspace_close(&w);
}

TEST(a_git_that_is_no_repository_is_refused)
{
        struct workspace w;
        workspace_open(&w);
        must(mkdir(at(&w, ".git"), 0700) == 0);
        is_refused(&w, "is no repository that has its objects itself");
        workspace_close(&w);
}

TEST(a_repository_that_names_another_for_its_objects_is_refused)
{
        struct workspace w;
        workspace_open(&w);
        make_repository(&w);
        make_file(&w, ".git/commondir", "/elsewhere\n");
        is_refused(&w, "is no repository that has its objects itself");
        workspace_close(&w);
}

TEST(a_git_file_opens_only_the_repository_of_its_workspace)
{
        struct workspace w;
        workspace_open(&w);
        make_file(&w, ".git", "gitdir: /nonexistent/repository\n");
        is_refused(&w, "names no repository");
        must(truncate(at(&w, ".git"), 0) == 0);
        make_file(&w, ".git", "gitdir: /tmp\n");
        is_refused(&w, "names no repository that belongs to this directory");
        workspace_close(&w);
}

TEST(a_link_in_place_of_the_repository_is_refused)
{
        struct workspace w;
        workspace_open(&w);
        must(symlink("/tmp", at(&w, ".git")) == 0);
        is_refused(&w, "is neither a directory nor a file");
        workspace_close(&w);
}

TEST(a_commondir_that_appears_is_noticed_and_removed)
{
        struct workspace w;
        workspace_open(&w);
        make_repository(&w);
        eq_int(add(&w), 0);
        ok(!git_access_is_broken(&w.git));
        make_file(&w, ".git/commondir", "/elsewhere\n");
        ok(git_access_is_broken(&w.git));
        ok(git_access_repair(&w.git) == NULL);
        ok(access(at(&w, ".git/commondir"), F_OK) < 0);
        ok(!git_access_is_broken(&w.git));
        workspace_close(&w);
}
