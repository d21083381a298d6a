/* helper_test: a program that others may write is refused, and what is executed is what was opened. */
#include "sandbox/helper.h"

#include "base/fd.h"
#include "base/slice.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define STRANGER 58232

/* A temporary directory with a program that prints "first". */
struct place {
        char dir[64], path[PATH_MAX], other[PATH_MAX];
};

static void put(const char *path, const char *text)
{
        _close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, slice_from_str(text)), 0);
        eq_int(fchmod(fd, 0755), 0);
}

static struct place place_make(void)
{
        struct place p = { .dir = "/tmp/fh-helper-XXXXXX" };
        ok(mkdtemp(p.dir) != NULL);
        (void)snprintf(p.path, sizeof(p.path), "%s/program", p.dir);
        (void)snprintf(p.other, sizeof(p.other), "%s/other", p.dir);
        put(p.path, "#!/bin/sh\necho first\n");
        return p;
}

static void place_remove(const struct place *p)
{
        (void)unlink(p->path);
        (void)unlink(p->other);
        eq_int(rmdir(p->dir), 0);
}

/* Executes the descriptor and returns the output. */
static void run(const struct helper *h, char ret[static 32])
{
        int ends[2], fd = helper_fd(h);
        ok(fd >= 0);
        eq_int(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0) {
                char path[32], name[] = "program", *argv[] = { name, NULL };
                (void)dup2(ends[1], STDOUT_FILENO);
                (void)fcntl(fd, F_SETFD, 0);
                (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                (void)execv(path, argv);
                _exit(127);
        }
        fd_close(ends[1]);
        ssize_t n = read(ends[0], ret, 31);
        ret[n > 0 ? n : 0] = 0;
        fd_close(ends[0]);
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

TEST(a_copy_outlives_what_is_done_to_the_file)
{
        struct place p = place_make();
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        char said[32];
        eq_int(helper_open(p.path, true, &h, &err), 0);
        ok(h.copy >= 0);
        run(&h, said);
        eq_str(said, "first\n");
        put(p.path,
            "#!/bin/sh\necho second\n"); /* put() writes into the file that is there, so that the inode stays */
        run(&h, said);
        eq_str(said, "first\n");
        eq_int(unlink(p.path), 0);
        run(&h, said);
        eq_str(said, "first\n");
        helper_close(&h);
        eq_int(h.file, -1);
        eq_int(h.copy, -1);
        place_remove(&p);
}

TEST(a_copy_cannot_be_changed)
{
        struct place p = place_make();
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        char path[32];
        eq_int(helper_open(p.path, true, &h, &err), 0);
        eq_int(pwrite(h.copy, "x", 1, 0), -1);
        eq_int(errno, EPERM);
        eq_int(ftruncate(h.copy, 0), -1);
        ok(mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, h.copy, 0) == MAP_FAILED);
        eq_int(fcntl(h.copy, F_ADD_SEALS, 0), -1);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", h.copy);
        _close_ int again = open(path, O_RDWR | O_CLOEXEC);
        eq_int(again < 0 ? -1 : (int)pwrite(again, "x", 1, 0), -1);
        helper_close(&h);
        place_remove(&p);
}

TEST(a_file_that_was_replaced_goes_on_and_one_that_changed_does_not)
{
        struct place p = place_make();
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        char said[32];
        eq_int(helper_open(p.path, false, &h, &err), 0);
        eq_int(h.copy, -1);
        run(&h, said);
        eq_str(said, "first\n");
        put(p.other, "#!/bin/sh\necho second\n");
        ok(helper_fd(&h) >= 0);
        eq_int(chmod(p.path, 0755), 0); /* changes nothing but ctime */
        eq_int(helper_fd(&h), -ESTALE);
        helper_close(&h);

        eq_int(helper_open(p.path, false, &h, &err), 0);
        eq_int(rename(p.other, p.path), 0);
        /* Removing the name changes the ctime of the file. */
        eq_int(helper_fd(&h), -ESTALE);
        helper_close(&h);
        place_remove(&p);
}

TEST(without_its_copy_the_file_is_executed)
{
        struct place p = place_make();
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        eq_int(helper_open(p.path, true, &h, &err), 0);
        int copy = h.copy;
        helper_drop_copy(&h);
        eq_int(helper_fd(&h), h.file);
        eq_int(fcntl(copy, F_GETFD), -1);
        put(p.path, "#!/bin/sh\necho second\n");
        eq_int(helper_fd(&h), -ESTALE);
        helper_close(&h);
        place_remove(&p);
}

static void eq_refused(const char *path, const char *culprit, const char *words)
{
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        char expected[PATH_MAX + 128];
        (void)snprintf(expected, sizeof(expected), "%s %s", culprit, words);
        eq_int(helper_open(path, true, &h, &err), -EPERM);
        eq_str(err.text, expected);
        eq_int(err.os_errno, EPERM);
        eq_str(err.remedy, HELPER_REMEDY);
        eq_int(h.file, -1);
        eq_int(h.copy, -1);
}

static void eq_taken(const char *path)
{
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        eq_int(helper_open(path, true, &h, &err), 0);
        helper_close(&h);
}

TEST(what_everybody_may_write_is_refused)
{
        struct place p = place_make();
        eq_int(chmod(p.path, 0757), 0);
        eq_refused(p.path, p.path, "can be written by everybody");
        eq_int(chmod(p.path, 0755), 0);
        eq_int(chmod(p.dir, 0757), 0);
        eq_refused(p.path, p.dir, "can be written by everybody");
        eq_int(chmod(p.dir, 01757), 0);
        eq_taken(p.path);
        place_remove(&p);
}

TEST(what_our_own_group_may_write_is_taken_but_not_another)
{
        struct place p = place_make();
        eq_int(chmod(p.path, 0775), 0);
        eq_int(chmod(p.dir, 0775), 0);
        eq_taken(p.path);
        if (geteuid() != 0)
                skip();
        eq_int(chown(p.path, (uid_t)-1, STRANGER), 0);
        eq_refused(p.path, p.path, "can be written by its group");
        eq_int(chown(p.path, (uid_t)-1, getegid()), 0);
        eq_int(chown(p.dir, (uid_t)-1, STRANGER), 0);
        eq_refused(p.path, p.dir, "can be written by its group");
        place_remove(&p);
}

TEST(what_belongs_to_another_user_is_refused)
{
        struct place p = place_make();
        if (geteuid() != 0) {
                place_remove(&p);
                skip();
        }
        eq_int(chown(p.path, STRANGER, (gid_t)-1), 0);
        eq_refused(p.path, p.path, "belongs to uid 58232");
        eq_int(chown(p.path, 0, (gid_t)-1), 0);
        eq_int(chown(p.dir, STRANGER, (gid_t)-1), 0);
        eq_int(chmod(p.dir, 01755), 0); /* the owner of a sticky directory may remove every file in it */
        eq_refused(p.path, p.dir, "belongs to uid 58232");
        place_remove(&p);
}

/* The list is user::rwx, user:STRANGER:rwx, group::r-x, mask::rwx, other::r-x in the form of the kernel. */
TEST(what_an_access_control_list_lets_others_write_is_refused)
{
        const struct {
                uint32_t version;
                struct {
                        uint16_t tag, perm;
                        uint32_t id;
                } entries[5];
        } acl = { 2,
                  { { 1, 7, UINT32_MAX },
                    { 2, 7, STRANGER },
                    { 4, 5, UINT32_MAX },
                    { 16, 7, UINT32_MAX },
                    { 32, 5, UINT32_MAX } } };
        struct place p = place_make();
        int r = setxattr(p.path, "system.posix_acl_access", &acl, sizeof(acl), 0);
        if (r == 0)
                eq_refused(p.path, p.path, "can be written by others: it has an access control list");
        place_remove(&p);
        if (r < 0)
                skip();
}

TEST(a_link_is_followed_before_anything_is_judged)
{
        struct place p = place_make();
        eq_int(symlink(p.path, p.other), 0);
        eq_taken(p.other);
        eq_int(chmod(p.path, 0757), 0);
        eq_refused(p.other, p.path, "can be written by everybody");
        place_remove(&p);
}

TEST(what_is_no_file_or_not_there_is_an_error)
{
        struct place p = place_make();
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        eq_int(helper_open(p.dir, true, &h, &err), -EACCES);
        eq_int(mkfifo(p.other, 0755), 0);
        eq_int(helper_open(p.other, true, &h, &err), -EACCES);
        eq_int(unlink(p.other), 0);
        eq_int(helper_open(p.other, true, &h, &err), -ENOENT);
        place_remove(&p);
}

/* A process that holds a lease makes execve wait. So opening the helper fails, and no later start waits. */
TEST(a_file_under_a_lease_is_an_error)
{
        struct place p = place_make();
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        _close_ int fd = open(p.path, O_RDWR | O_CLOEXEC);
        if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0) {
                place_remove(&p);
                skip();
        }
        sighandler_t before = signal(SIGIO, SIG_IGN);
        eq_int(helper_open(p.path, true, &h, &err), -EAGAIN);
        (void)fcntl(fd, F_SETLEASE, F_UNLCK);
        (void)signal(SIGIO, before);
        place_remove(&p);
}

TEST(a_program_beside_us_is_found)
{
        char path[PATH_MAX];
        eq_int(helper_find("no-such-program", path), -ENOENT);
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        ok(n > 0);
        self[n] = 0;
        eq_int(helper_find(strrchr(self, '/') + 1, path), 0);
        eq_str(path, self);
}

/* In a user namespace that does not map root, the files of root seem to belong to the overflow uid. */
TEST(root_of_the_machine_is_known_in_a_user_namespace_of_our_own)
{
        struct err err = ERR_INIT;
        struct helper h = HELPER_NONE;
        pid_t pid = fork();
        if (pid == 0) {
                if (geteuid() == 0 && setresuid(STRANGER, STRANGER, STRANGER) < 0)
                        _exit(2);
                (void)prctl(PR_SET_DUMPABLE, 1); /* so that the child owns its files in /proc */
                if (unshare(CLONE_NEWUSER) < 0)
                        _exit(77);
                char map[32];
                _close_ int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
                (void)snprintf(map, sizeof(map), "0 %u 1", STRANGER);
                if (fd_write_all(fd, slice_from_str(map)) < 0)
                        _exit(77);
                _exit(helper_open("/bin/sh", true, &h, &err) == 0 ? 0 : 1);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77 || geteuid() != 0)
                skip();
        eq_int(WEXITSTATUS(status), 0);
}
