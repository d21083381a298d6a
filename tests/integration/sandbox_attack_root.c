/* sandbox_attack_root: the way up. Whatever directory a command can name or was given, `..` ends in its own root, and what
 * lies outside is reached from none of them.
 */
#define _GNU_SOURCE
#include "sandbox_attack.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif
#define STEPS_MAX 40
#define DESCRIPTORS_MAX 256
#define BELOW_MAX 64

static const char *secret; /* absolute; outside of the sandbox */
static struct stat root;

static bool is_root(const struct stat *st)
{
        return st->st_dev == root.st_dev && st->st_ino == root.st_ino;
}

static bool has_secret(int dir)
{
        int fd = openat(dir, secret + 1, O_RDONLY | O_CLOEXEC);
        char byte;
        bool can_read = fd >= 0 && read(fd, &byte, 1) == 1;
        if (fd >= 0)
                close(fd);
        return can_read;
}

/* Goes up from the directory `fd` with `..`, and returns whether that leads out of the sandbox. Closes `fd`. */
static bool climbs_out(int fd, const char *from)
{
        struct stat before = { 0 }, st;
        for (int i = 0; i < STEPS_MAX; i++) {
                if (has_secret(fd)) {
                        say(BROKE, "%s is read %d steps above %s", secret, i, from);
                        return true;
                }
                int above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                close(fd);
                fd = above;
                if (fd < 0)
                        return false; /* a directory that cannot be passed */
                if (fstat(fd, &st) == 0 && st.st_dev == before.st_dev && st.st_ino == before.st_ino)
                        break;
                before = st;
        }
        bool is_out = !is_root(&st);
        if (is_out)
                say(BROKE, "the way up from %s ends in another root", from);
        close(fd);
        return is_out;
}

static bool path_climbs_out(const char *path)
{
        char text[8192];
        size_t n = (size_t)snprintf(text, sizeof text, "%s", path);
        int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return false;
        if (climbs_out(fd, path))
                return true;
        for (int i = 0; i < STEPS_MAX; i++) {
                n += (size_t)snprintf(text + n, sizeof text - n, "/..");
                snprintf(text + n, sizeof text - n, "%s", secret);
                if (access(text, R_OK) == 0) {
                        say(BROKE, "%s can be read", text);
                        return true;
                }
        }
        return false;
}

static bool below_climbs_out(const char *directory)
{
        DIR *dir = opendir(directory);
        const struct dirent *e;
        bool is_out = false;
        for (int n = 0; dir && !is_out && n < BELOW_MAX && (e = readdir(dir)); n++)
                is_out = e->d_name[0] != '.' && path_climbs_out(join(directory, e->d_name));
        if (dir)
                closedir(dir);
        return is_out;
}

/* Checks that only one mount lies on the root: `..` could lead to a second one. */
static bool has_one_root(void)
{
        struct statx a, b;
        char line[8192], point[4096];
        int roots = 0;
        if (statx(AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &a) < 0 ||
            statx(AT_FDCWD, "/..", 0, STATX_INO | STATX_MNT_ID, &b) < 0 || a.stx_ino != b.stx_ino ||
            a.stx_mnt_id != b.stx_mnt_id)
                return false;
        FILE *table = fopen("/proc/self/mountinfo", "re");
        while (table && fgets(line, sizeof line, table))
                if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1 && strcmp(point, "/") == 0)
                        roots++;
        if (table)
                fclose(table);
        return roots <= 1;
}

static enum verdict up(char **args)
{
        static const char *const starts[] = { "/",
                                              ".",
                                              "/proc/self/root",
                                              "/proc/self/cwd",
                                              "/proc/1/root",
                                              "/proc/1/cwd",
                                              "/proc/thread-self/root",
                                              "/proc/thread-self/cwd",
                                              "/proc/self/task/../root",
                                              "/dev",
                                              "/proc",
                                              "/proc/sys",
                                              "/tmp",
                                              NULL };
        struct stat st;
        secret = args[0];
        if (stat("/", &root) < 0)
                return say(BROKE, "there is no root");
        if (!has_one_root())
                return say(BROKE, "/ and /.. are not one mount");
        for (size_t i = 0; starts[i]; i++)
                if (path_climbs_out(starts[i]))
                        return BROKE;
        for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
                if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && climbs_out(dup(fd), "a descriptor"))
                        return BROKE;
        if (below_climbs_out("/") || below_climbs_out(".") || below_climbs_out("/dev"))
                return BROKE;
        return say(HELD, "all ways up end in the root");
}

const struct attempt root_attempts[] = {
        { "up", up },
        { NULL, NULL },
};
