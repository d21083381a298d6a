/* enter_dev: builds the /dev and the /proc of a view.
 *
 * /dev is a small file system with a few of the machine's devices. It stays writable until the terminal of the command is
 * known; then enter_view.c makes it read-only. /proc shows the processes of the new namespace, and nothing in it can change
 * the machine. It makes raw system calls only, as all code between clone and execve does.
 */
#include "sandbox/enter_view_internal.h"

#include "base/sys_proc.h"

#include <errno.h>
#include <limits.h>

/* How many pseudo-terminals a sandbox may have. They count against the limit of the machine, which no command may use up. */
#define TERMINALS_MAX "256"

/* Mounts a device of the machine in /dev and returns the mount; -ENOENT when the machine lacks the device. */
static int dev_mount_node(struct enter_view *v, const char *from, const char *name)
{
        int source = sys_open_beneath(v->old, from, O_PATH | O_NOFOLLOW);
        if (source < 0)
                return source;
        int tree = sys_tree_copy(source, "");
        sys_close(source);
        if (tree < 0)
                return tree;
        /* A device can be written through a read-only mount. The mount protects the device's mode and times, which belong to
         * the machine. */
        int r = sys_tree_set(tree, SYS_ATTR_NOSUID | SYS_ATTR_NOEXEC | SYS_ATTR_RDONLY);
        if (r == 0)
                r = landlock_allow(&v->landlock, tree, false, LANDLOCK_DEVICE);
        if (r == 0)
                r = sys_touchat(v->dev, name, 0444);
        if (r == 0)
                r = sys_tree_attach(tree, v->dev, name);
        if (r == 0)
                return tree;
        sys_close(tree);
        return r == -ENOENT ? -EPROTO : r; /* -ENOENT would mean that the machine lacks the device */
}

/* Mounts a writable file system on a new directory; a negative `tree` is returned as it is. */
static int dev_mount_directory(struct enter_view *v, const char *name, int tree)
{
        int r = tree < 0 ? tree : sys_mkdirat(v->dev, name, 0755);
        if (r == 0)
                r = landlock_allow(&v->landlock, tree, true, LANDLOCK_WRITE);
        if (r < 0) {
                if (tree >= 0)
                        sys_close(tree);
                return r;
        }
        return view_attach(tree, v->dev, name);
}

/* The terminal of the command belongs to the devpts of the machine, which is not in the view. Under the name /dev/console,
 * ttyname(3) finds it. */
int view_dev_console(struct enter_view *v, int tty_fd)
{
        char path[PATH_MAX];
        struct sys_path self = { .n = 0 };
        sys_path_add(&self, "self/fd/");
        sys_path_add_pid(&self, tty_fd);
        long bytes = sys_call4(SYS_readlinkat, v->old_proc, self.text, path, sizeof(path) - 1);
        if (bytes <= 1 || path[0] != '/')
                return -ENOENT;
        path[bytes] = 0;
        struct stat named, tty;
        int fd = sys_open_beneath(v->old, path + 1, O_PATH | O_NOFOLLOW);
        bool is_it = fd >= 0 && sys_fstat(fd, &named) == 0 && sys_fstat(tty_fd, &tty) == 0 &&
                     named.st_dev == tty.st_dev && named.st_ino == tty.st_ino;
        if (fd >= 0)
                sys_close(fd);
        int tree = is_it ? dev_mount_node(v, path + 1, "console") : -ENOENT;
        if (tree < 0)
                return tree;
        view_note_console(v, tree);
        sys_close(tree);
        return 0;
}

static int dev_links(struct enter_view *v)
{
        static const char *const links[][2] = {
                { "/proc/self/fd", "fd" },       { "/proc/self/fd/0", "stdin" },
                { "/proc/self/fd/1", "stdout" }, { "/proc/self/fd/2", "stderr" },
                { "pts/ptmx", "ptmx" },
        };
        int r = 0;
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(links); n++)
                r = sys_symlinkat(links[n][0], v->dev, links[n][1]);
        return r;
}

int view_dev_make(struct enter_view *v)
{
        static const char *const of_terminals[] = { "ptmxmode", "0666", "max", TERMINALS_MAX, NULL };
        static const char *const nodes[][2] = {
                { "dev/null", "null" },     { "dev/zero", "zero" },       { "dev/full", "full" },
                { "dev/random", "random" }, { "dev/urandom", "urandom" }, { "dev/tty", "tty" },
        };
        if (v->image->root == PLAN_ROOT_EMPTY) {
                int made = sys_mkdirat(v->root, "dev", 0755);
                if (made < 0 && made != -EEXIST)
                        return made;
        }
        v->dev = view_tmpfs_make("0755", "1m", "256", SYS_ATTR_NOSUID | SYS_ATTR_NOEXEC);
        int r = v->dev < 0 ? v->dev : sys_tree_attach(v->dev, v->root, "dev");
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(nodes); n++) {
                int tree = dev_mount_node(v, nodes[n][0], nodes[n][1]);
                if (tree >= 0)
                        sys_close(tree);
                r = tree == -ENOENT ? 0 : MIN(tree, 0);
        }
        if (r == 0)
                r = dev_links(v);
        if (r == 0)
                r = dev_mount_directory(v, "shm",
                                        view_tmpfs_make("1777", "64m", "8192",
                                                        SYS_ATTR_NOSUID | SYS_ATTR_NODEV));
        if (r == 0)
                r = dev_mount_directory(v, "pts",
                                        view_fs_make("devpts", of_terminals,
                                                     SYS_ATTR_NOSUID | SYS_ATTR_NOEXEC));
        return r;
}

/* Makes a /proc that shows only the processes of the sandbox. The settings of the kernel in it belong to uid 0, which needs no
 * capability to change them, so they are made read-only. */
int view_proc_make(struct enter_view *v)
{
        static const char *const none[] = { NULL };
        static const char *const settings[] = {
                "sys",  "irq",    "bus",  "fs",         "sysrq-trigger", "acpi",
                "scsi", "driver", "mtrr", "timer_list", "dynamic_debug", "asound",
        };
        if (v->image->has_view && v->image->root == PLAN_ROOT_EMPTY) {
                int made = sys_mkdirat(v->root, "proc", 0555);
                if (made < 0 && made != -EEXIST)
                        return made;
        }
        int proc = view_fs_make("proc", none, SYS_ATTR_NOSUID | SYS_ATTR_NODEV | SYS_ATTR_NOEXEC);
        int r = proc < 0 ? proc : sys_tree_attach(proc, v->root, "proc");
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(settings); n++) {
                int tree = sys_tree_copy(proc, settings[n]);
                if (tree == -ENOENT)
                        continue;
                if (tree >= 0 &&
                    (r = sys_tree_set(tree, ATTR_TREE | SYS_ATTR_RDONLY | SYS_ATTR_NOEXEC)) < 0) {
                        sys_close(tree);
                        break;
                }
                r = view_attach(tree, proc, settings[n]);
        }
        if (r == 0)
                r = landlock_allow(&v->landlock, proc, true, LANDLOCK_WRITE);
        if (r == 0)
                v->children = sys_openat(proc, "1/task/1/children", O_RDONLY);
        if (proc >= 0)
                sys_close(proc);
        return r;
}
