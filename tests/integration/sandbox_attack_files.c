/* sandbox_attack_files: what is read-only, masked or protected in the tree of the test (World in the Python file).
 *
 * The working directory is the workspace. scratch/ is where the attempts may leave what they like.
 */
#define _GNU_SOURCE
#include "sandbox_attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define RACE_MS 400

/* Opens a file for reading, and tries to change it through the descriptor. Returns whether that worked; *what says how. */
static bool by_descriptor(const char *path, const char **what)
{
        char link[64];
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return false;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        *what = "fchmod";
        bool broke = fchmod(fd, 0777) == 0 || chmod(link, 0777) == 0;
        if (!broke) {
                *what = "opening the descriptor again";
                broke = open(link, O_RDWR) >= 0;
        }
        if (!broke) {
                *what = "futimens";
                broke = futimens(fd, NULL) == 0;
        }
        if (!broke) {
                *what = "ftruncate";
                broke = ftruncate(fd, 0) == 0 || fallocate(fd, 0, 0, 4096) == 0;
        }
        if (!broke) {
                *what = "a shared mapping";
                broke = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
        }
        if (!broke) {
                void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
                *what = "mprotect of a shared mapping";
                broke = p != MAP_FAILED && mprotect(p, 4096, PROT_READ | PROT_WRITE) == 0;
        }
        int flags = 0x10 /* immutable */, source = open("a.txt", O_RDONLY);
        if (!broke) {
                *what = "ioctl for flags";
                broke = ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
        }
        if (!broke) {
                *what = "copying into a descriptor";
                broke = copy_file_range(source, NULL, fd, NULL, 4, 0) > 0 ||
                        sendfile(fd, source, NULL, 4) > 0 || ioctl(fd, FICLONE, source) == 0;
        }
        if (!broke) {
                *what = "F_SETFL";
                broke = fcntl(fd, F_SETFL, O_RDWR) == 0 && write(fd, "x", 1) == 1;
        }
        close(fd);
        return broke;
}

/* Returns whether the path is a link: a command may change its own links, but not what they lead to. */
static bool is_link(const char *path)
{
        struct stat st;

        return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* change OP PATH…: none of them may be changed. */
static bool change(const char *op, const char *path, const char **what)
{
        struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

        *what = op;
        if (strcmp(op, "open") == 0)
                return open(path, O_WRONLY) >= 0 || open(path, O_RDWR) >= 0 ||
                       open(path, O_WRONLY | O_APPEND) >= 0;
        if (strcmp(op, "open-truncate") == 0)
                return open(path, O_WRONLY | O_TRUNC | O_CREAT, 0644) >= 0;
        if (strcmp(op, "read-truncate") == 0)
                return open(path, O_RDONLY | O_TRUNC) >= 0;
        if (strcmp(op, "truncate") == 0)
                return truncate(path, 0) == 0;
        if (strcmp(op, "utimensat") == 0)
                return utimensat(AT_FDCWD, path, times, 0) == 0 || utimensat(AT_FDCWD, path, NULL, 0) == 0 ||
                       (!is_link(path) && utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0);
        if (strcmp(op, "chmod") == 0)
                return chmod(path, 0777) == 0 || fchmodat(AT_FDCWD, path, 0755, 0) == 0 ||
                       syscall(SYS_fchmodat2, AT_FDCWD, path, 0755, AT_SYMLINK_NOFOLLOW) == 0;
        if (strcmp(op, "chown") == 0)
                return chown(path, getuid(), getgid()) == 0 ||
                       (!is_link(path) && lchown(path, getuid(), getgid()) == 0);
        if (strcmp(op, "xattr") == 0)
                return setxattr(path, "user.farhand", "x", 1, 0) == 0 || removexattr(path, "user.kept") == 0;
        if (strcmp(op, "unlink") == 0)
                return unlink(path) == 0 || rmdir(path) == 0 || unlinkat(AT_FDCWD, path, AT_REMOVEDIR) == 0;
        if (strcmp(op, "create-below") == 0)
                return mkdir(join(path, "n"), 0755) == 0 ||
                       open(join(path, "n"), O_CREAT | O_WRONLY, 0644) >= 0 ||
                       symlink("x", join(path, "n")) == 0 || mknod(join(path, "n"), S_IFIFO | 0600, 0) == 0 ||
                       link("a.txt", join(path, "n")) == 0 || rename("scratch/file", join(path, "n")) == 0 ||
                       open(path, O_TMPFILE | O_RDWR, 0600) >= 0;
        if (strcmp(op, "tmpfile-link") == 0) {
                char self[64];
                int fd = open("scratch", O_TMPFILE | O_RDWR, 0600);
                snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
                return fd >= 0 &&
                       (linkat(AT_FDCWD, self, AT_FDCWD, join(path, "n"), AT_SYMLINK_FOLLOW) == 0 ||
                        linkat(fd, "", AT_FDCWD, join(path, "n"), AT_EMPTY_PATH) == 0);
        }
        if (strcmp(op, "link-out") == 0) {
                int fd = open(path, O_RDONLY), at = open(path, O_PATH);
                char self[64];
                /* link(2) on a link is left out: it would link the link itself, which is allowed. */
                const char *name = is_link(path) ? "nothing" : path;
                snprintf(self, sizeof self, "/proc/self/fd/%d", fd >= 0 ? fd : at);
                return link(name, "scratch/hard") == 0 ||
                       linkat(fd, "", AT_FDCWD, "scratch/hard", AT_EMPTY_PATH) == 0 ||
                       linkat(at, "", AT_FDCWD, "scratch/hard", AT_EMPTY_PATH) == 0 ||
                       linkat(AT_FDCWD, self, AT_FDCWD, "scratch/hard", AT_SYMLINK_FOLLOW) == 0;
        }
        if (strcmp(op, "o-path") == 0) {
                int fd = open(path, O_PATH | O_NOFOLLOW);
                char self[64];
                snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
                return fd >= 0 &&
                       (open(self, O_RDWR) >= 0 || chmod(self, 0777) == 0 || truncate(self, 0) == 0);
        }
        if (strcmp(op, "descriptor") == 0)
                return by_descriptor(path, what);
        *what = "no such operation";
        return true;
}

static enum verdict attempt_change(char **args)
{
        const char *what, *op = args[0];

        (void)!mkdir("scratch", 0755);
        int made = open("scratch/file", O_CREAT | O_WRONLY, 0644);
        if (made < 0)
                return say(WEAK, "the workspace cannot be written: %s", strerrorname_np(errno));
        for (args++; *args; args++) {
                if (change(op, *args, &what))
                        return say(BROKE, "%s of %s", what, *args);
        }
        return say(HELD, "%s: the last says %s", op, strerrorname_np(errno));
}

/* read PATH…: none of them may be read, listed or looked into. */
static enum verdict attempt_read(char **args)
{
        for (; *args; args++) {
                struct stat st;
                char c;
                int fd = open(*args, O_RDONLY | O_NONBLOCK);
                if (fd >= 0 && (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) || read(fd, &c, 1) != 0))
                        return say(BROKE, "%s can be read", *args);
                char link[256];
                if (readlink(*args, link, sizeof link) >= 0)
                        continue;
                if (getxattr(*args, "user.kept", link, sizeof link) >= 0)
                        return say(BROKE, "an attribute of %s can be read", *args);
        }
        return say(HELD, "%s", strerrorname_np(errno));
}

/* move HOW PATH: the mask stays where it is. */
static enum verdict attempt_move(char **args)
{
        const char *how = args[0], *path = args[1];

        (void)!mkdir("scratch", 0755);
        (void)!mkdir("scratch/dir", 0755);
        (void)!close(open("scratch/file", O_CREAT | O_WRONLY, 0644));
        if (strcmp(how, "rename") == 0)
                return must_fail(rename(path, "scratch/moved"), path);
        if (strcmp(how, "rename-noreplace") == 0)
                return must_fail(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, "scratch/moved", 1), path);
        if (strcmp(how, "exchange") == 0) {
                if (syscall(SYS_renameat2, AT_FDCWD, "scratch/file", AT_FDCWD, path, RENAME_EXCHANGE) == 0)
                        return say(BROKE, "exchanged with a file");
                return must_fail(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, "scratch/dir",
                                         RENAME_EXCHANGE),
                                 path);
        }
        if (strcmp(how, "replace") == 0) {
                if (rename("scratch/file", path) == 0)
                        return say(BROKE, "replaced by a file");
                if (symlink("scratch/dir", "scratch/link") == 0 && rename("scratch/link", path) == 0)
                        return say(BROKE, "replaced by a link");
                return must_fail(rename("scratch/dir", path), path);
        }
        if (strcmp(how, "remove") == 0) {
                if (unlink(path) == 0)
                        return say(BROKE, "unlinked");
                return must_fail(rmdir(path), path);
        }
        return (enum verdict)99;
}

/* appear PATH: tries in every way to make a protected name that is missing. */
static enum verdict attempt_appear(char **args)
{
        const char *path = args[0];

        (void)!mkdir("scratch", 0755);
        (void)!mkdir("scratch/dir", 0755);
        (void)!close(open("scratch/file", O_CREAT | O_WRONLY, 0644));
        if (mkdir(path, 0755) == 0)
                return say(BROKE, "mkdir");
        if (open(path, O_CREAT | O_WRONLY, 0644) >= 0)
                return say(BROKE, "open");
        if (symlink("scratch/dir", path) == 0)
                return say(BROKE, "symlink");
        if (link("scratch/file", path) == 0)
                return say(BROKE, "link");
        if (mknod(path, S_IFIFO | 0600, 0) == 0)
                return say(BROKE, "mknod");
        if (rename("scratch/file", path) == 0 || rename("scratch/dir", path) == 0)
                return say(BROKE, "rename");
        if (mkdir(join(path, "hooks"), 0755) == 0 ||
            open(join(path, "config"), O_CREAT | O_WRONLY, 0644) >= 0)
                return say(BROKE, "below");
        if (rmdir(path) == 0 || unlink(path) == 0)
                return say(BROKE, "removed");
        if (rename(path, "scratch/moved") == 0)
                return say(BROKE, "moved");
        return say(HELD, "%s", strerrorname_np(errno));
}

/* race PARENT MASK FILE: a second process moves the parent to and fro, while this one writes what the mask covers. */
static enum verdict attempt_race(char **args)
{
        const char *parent = args[0], *mask = args[1], *file = args[2];
        long since = 0;

        (void)!mkdir("scratch", 0755);
        pid_t pid = fork();
        if (pid == 0) {
                for (;;) {
                        (void)!rename(parent, "scratch/away");
                        (void)!mkdir(parent, 0755);
                        (void)!mkdir(mask, 0755);
                        (void)!rmdir(mask);
                        (void)!rmdir(parent);
                        (void)!rename("scratch/away", parent);
                        (void)!syscall(SYS_renameat2, AT_FDCWD, parent, AT_FDCWD, "scratch", RENAME_EXCHANGE);
                }
        }
        enum verdict v = HELD;
        while (v == HELD && still_time(&since, RACE_MS)) {
                if (open(file, O_WRONLY) >= 0)
                        v = say(BROKE, "%s can be written", file);
                else if (open(join(mask, "planted"), O_CREAT | O_WRONLY, 0644) >= 0)
                        v = say(BROKE, "a file came to be in %s", mask);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return v == HELD ? say(HELD, "%s", strerrorname_np(errno)) : v;
}

/* race-link: a second process turns a link from the workspace to the outside and back. */
static enum verdict attempt_race_link(char **args)
{
        struct stat outside, got;
        long since = 0;
        long tries = 0;

        (void)args;
        (void)!mkdir("scratch", 0755);
        (void)!mkdir("scratch/dir", 0755);
        (void)!close(open("scratch/dir/o.txt", O_CREAT | O_WRONLY, 0644));
        if (symlink("dir", "scratch/link") < 0 || stat(join(setting("BOX_O"), "o.txt"), &outside) < 0)
                return say(WEAK, "no place for the race: %s", strerrorname_np(errno));
        pid_t pid = fork();
        if (pid == 0) {
                for (;;) {
                        (void)!symlink(setting("BOX_O"), "scratch/next");
                        (void)!rename("scratch/next", "scratch/link");
                        (void)!symlink("dir", "scratch/next");
                        (void)!rename("scratch/next", "scratch/link");
                }
        }
        enum verdict v = HELD;
        while (v == HELD && still_time(&since, RACE_MS)) {
                int fd = open("scratch/link/o.txt", O_WRONLY);
                if (fd < 0)
                        continue;
                tries++;
                if (fstat(fd, &got) == 0 && got.st_ino == outside.st_ino && got.st_dev == outside.st_dev)
                        v = say(BROKE, "the outside can be written");
                close(fd);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return v == HELD ? say(HELD, "%ld times the inside", tries) : v;
}

/* handle PATH: tries to open a directory by its file handle, without a path. */
static enum verdict attempt_handle(char **args)
{
        union {
                struct file_handle head;
                char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
        } h;
        int mount_id;

        memset(&h, 0, sizeof h);
        h.head.handle_bytes = MAX_HANDLE_SZ;
        if (name_to_handle_at(AT_FDCWD, args[0], &h.head, &mount_id, 0) < 0)
                return say(HELD, "name_to_handle_at: %s", strerrorname_np(errno));
        int fd = open_by_handle_at(open(".", O_RDONLY), &h.head, O_RDWR);
        return must_fail(fd, "open_by_handle_at");
}

/* Tries to take leases: a lease would make each process that opens the file wait for 45 seconds. */
static enum verdict lease(char **args)
{
        static const int kinds[] = { F_RDLCK, F_WRLCK };
        int fds[] = { open(args[0], O_RDONLY | O_CLOEXEC), open(args[1], O_RDONLY | O_CREAT | O_CLOEXEC, 0644) };
        for (int i = 0; i < 2; i++) {
                if (fds[i] < 0)
                        return say(WEAK, "%s cannot be opened", args[i]);
                for (int k = 0; k < 2; k++)
                        if (fcntl(fds[i], F_SETLEASE, kinds[k]) == 0 ||
                            syscall(SYS_fcntl, fds[i], 0x100000000L | F_SETLEASE, kinds[k]) == 0)
                                return say(BROKE, "a lease on %s", args[i]);
        }
        unlink(args[1]);
        return say(HELD, "no lease");
}

const struct attempt file_attempts[] = {
        { "lease", lease },
        { "change", attempt_change }, { "read", attempt_read }, { "move", attempt_move },
        { "appear", attempt_appear }, { "race", attempt_race }, { "race-link", attempt_race_link },
        { "handle", attempt_handle }, { NULL, NULL },
};
