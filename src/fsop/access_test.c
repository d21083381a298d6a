/* access_test: what may be done with files, in a process without a reach. Permissions are tested in
 * tests/integration/test_sandbox_fs_rule.py, with a server that is not root. */
#include "fsop/access.h"

#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>

static int ask(const struct rig *rig, const char *name, enum access_wish wish)
{
        struct err err = ERR_INIT;
        char path[2 * PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%s", rig->root, name);
        int r = fsop_check_access(path, wish, &err);
        eq_int(err.os_errno, -r);
        return r;
}

static void make(const struct rig *rig, const char *name)
{
        char path[2 * PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%s", rig->root, name);
        _close_ int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        ok(fd >= 0);
}

static struct rig plant(void)
{
        struct rig rig = rig_new();
        _close_ int root = open(rig.root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        ok(root >= 0 && mkdirat(root, "d", 0700) == 0);
        make(&rig, "f");
        make(&rig, "d/f");
        ok(symlinkat("f", root, "to-f") == 0 && symlinkat("d", root, "to-d") == 0);
        ok(symlinkat("d/new", root, "to-new") == 0 && symlinkat("none/new", root, "to-none") == 0);
        ok(symlinkat("loop", root, "loop") == 0);
        return rig;
}

TEST(files_and_directories_may_be_read)
{
        _rig_ struct rig rig = plant();
        eq_int(ask(&rig, "f", ACCESS_TO_READ), 0);
        eq_int(ask(&rig, "d", ACCESS_TO_READ), 0);
        eq_int(ask(&rig, "to-d/f", ACCESS_TO_READ), 0);
        eq_int(ask(&rig, "none", ACCESS_TO_READ), -ENOENT);
        eq_int(ask(&rig, "to-new", ACCESS_TO_READ), -ENOENT);
        eq_int(ask(&rig, "f/x", ACCESS_TO_READ), -ENOTDIR);
        eq_int(ask(&rig, "f/", ACCESS_TO_READ), -ENOTDIR);
        eq_int(ask(&rig, "loop", ACCESS_TO_READ), -ELOOP);
}

TEST(links_are_followed_to_what_would_be_written)
{
        _rig_ struct rig rig = plant();
        eq_int(ask(&rig, "f", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "to-f", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "to-new", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "to-none", ACCESS_TO_WRITE), -ENOENT);
        eq_int(ask(&rig, "d", ACCESS_TO_WRITE), -EISDIR);
        eq_int(ask(&rig, "to-d", ACCESS_TO_WRITE), -EISDIR);
        eq_int(ask(&rig, "loop", ACCESS_TO_WRITE), -ELOOP);
        eq_int(ask(&rig, "f/x", ACCESS_TO_WRITE), -ENOTDIR);
        eq_int(ask(&rig, "..", ACCESS_TO_WRITE), -EISDIR);
}

TEST(parents_that_are_missing_would_be_made)
{
        _rig_ struct rig rig = plant();
        eq_int(ask(&rig, "new", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "a/b/c", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "a/./b/../c", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "a/../f", ACCESS_TO_WRITE), 0);
        eq_int(ask(&rig, "a/../f/x", ACCESS_TO_WRITE), -ENOTDIR);
        eq_int(ask(&rig, "to-none/x", ACCESS_TO_WRITE), -EEXIST);
}

TEST(a_name_is_removed_itself)
{
        _rig_ struct rig rig = plant();
        eq_int(ask(&rig, "f", ACCESS_TO_REMOVE), 0);
        eq_int(ask(&rig, "d", ACCESS_TO_REMOVE), 0);
        eq_int(ask(&rig, "to-none", ACCESS_TO_REMOVE), 0);
        eq_int(ask(&rig, "loop", ACCESS_TO_REMOVE), 0);
        eq_int(ask(&rig, "none", ACCESS_TO_REMOVE), -ENOENT);
        eq_int(ask(&rig, "none/x", ACCESS_TO_REMOVE), -ENOENT);
        eq_int(ask(&rig, "d/..", ACCESS_TO_REMOVE), -EBUSY);
}

TEST(names_that_are_too_long_are_refused)
{
        _rig_ struct rig rig = plant();
        char name[NAME_MAX + 2];
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        char path[2 * sizeof(name) + 8];
        for (enum access_wish wish = ACCESS_TO_READ; wish <= ACCESS_TO_REMOVE; wish++)
                eq_int(ask(&rig, name, wish), -ENAMETOOLONG);
        (void)snprintf(path, sizeof(path), "a/%s", name);
        eq_int(ask(&rig, path, ACCESS_TO_WRITE), -ENAMETOOLONG);
        (void)snprintf(path, sizeof(path), "a/%s/x", name);
        eq_int(ask(&rig, path, ACCESS_TO_WRITE), -ENAMETOOLONG);
        struct err err = ERR_INIT;
        eq_int(fsop_check_access("f", ACCESS_TO_READ, &err), -EINVAL);
}
