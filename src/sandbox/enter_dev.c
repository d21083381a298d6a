/* enter_dev: the /dev and the /proc of a view, which are its own and not the machine's. See enter_view_internal.h.
 *
 * /dev is a small file system with a few of the machine's devices in it. It can be written until the terminal of the
 * command is known; enter_view.c seals it. /proc is of the new process numbers, and nothing in it changes the machine.
 * Raw, as all that runs between clone and execve.
 */
#include "sandbox/enter_view_internal.h"

#include <errno.h>
#include <limits.h>

static int fs_make(const char *type, const char *key, const char *value, unsigned attributes)
{
        int fs = sys_fsopen(type);
        if (fs < 0)
                return fs;
        int r = key ? sys_fsconfig_text(fs, key, value) : 0;
        if (r == 0)
                r = sys_fsconfig_create(fs);
        if (r == 0)
                r = sys_fsmount(fs, attributes);
        sys_close(fs);
        return r;
}

static int dev_node(struct enter_view *v, const char *from, const char *name)
{
        int source = sys_open_beneath(v->old, from, O_PATH | O_NOFOLLOW);
        if (source == -ENOENT)
                return 0; /* the machine has none */
        if (source < 0)
                return source;
        int tree = sys_tree_copy(source, "");
        sys_close(source);
        if (tree < 0)
                return tree;
        /* Devices can be written all the same. Their mode and times are the machine's, and belong to uid 0. */
        int r = sys_tree_set(tree, SYS_ATTR_NOSUID | SYS_ATTR_NOEXEC | SYS_ATTR_RDONLY);
        if (r == 0)
                r = view_allow_writes(v, tree, false);
        if (r == 0)
                r = sys_touchat(v->dev, name, 0444);
        if (r < 0) {
                sys_close(tree);
                return r;
        }
        return view_attach(tree, v->dev, name);
}

/* A file system of its own, which can be written; a negative tree passes through. */
static int dev_directory(struct enter_view *v, const char *name, int tree)
{
        int r = tree < 0 ? tree : sys_mkdirat(v->dev, name, 0755);
        if (r == 0)
                r = view_allow_writes(v, tree, true);
        if (r < 0) {
                if (tree >= 0)
                        sys_close(tree);
                return r;
        }
        return view_attach(tree, v->dev, name);
}

/* The command's terminal is of the machine's pts, which is not here: this is the name that ttyname finds. Where the
 * machine has no name for it, neither have we. */
int view_dev_console(struct enter_view *v, int tty_fd)
{
        char path[PATH_MAX], self[] = "proc/self/fd/0000000000";
        size_t n = sizeof("proc/self/fd/") - 1;
        char digits[10];
        size_t count = 0;
        for (unsigned left = (unsigned)tty_fd; count == 0 || left > 0; left /= 10)
                digits[count++] = (char)('0' + left % 10);
        while (count > 0)
                self[n++] = digits[--count];
        self[n] = 0;
        long bytes = sys_call4(SYS_readlinkat, v->old, self, path, sizeof(path) - 1);
        if (bytes <= 1 || path[0] != '/')
                return 0;
        path[bytes] = 0;
        struct stat named, tty;
        int fd = sys_open_beneath(v->old, path + 1, O_PATH | O_NOFOLLOW);
        bool is_it = fd >= 0 && sys_fstat(fd, &named) == 0 && sys_fstat(tty_fd, &tty) == 0 &&
                     named.st_dev == tty.st_dev && named.st_ino == tty.st_ino;
        if (fd >= 0)
                sys_close(fd);
        return is_it ? dev_node(v, path + 1, "console") : 0;
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
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(nodes); n++)
                r = dev_node(v, nodes[n][0], nodes[n][1]);
        if (r == 0)
                r = dev_links(v);
        if (r == 0)
                r = dev_directory(v, "shm",
                                  view_tmpfs_make("1777", "64m", "8192", SYS_ATTR_NOSUID | SYS_ATTR_NODEV));
        if (r == 0)
                r = dev_directory(v, "pts",
                                  fs_make("devpts", "ptmxmode", "0666", SYS_ATTR_NOSUID | SYS_ATTR_NOEXEC));
        return r;
}

/* Its own, of its own processes. The knobs of the machine in it belong to uid 0, and ask for no capability. */
int view_proc_make(struct enter_view *v)
{
        static const char *const knobs[] = { "sys",  "irq",  "bus",    "fs",   "sysrq-trigger",
                                             "acpi", "scsi", "driver", "mtrr", "timer_list" };
        if (v->image->root == PLAN_ROOT_EMPTY) {
                int made = sys_mkdirat(v->root, "proc", 0555);
                if (made < 0 && made != -EEXIST)
                        return made;
        }
        int proc = fs_make("proc", NULL, NULL, SYS_ATTR_NOSUID | SYS_ATTR_NODEV | SYS_ATTR_NOEXEC);
        int r = proc < 0 ? proc : sys_tree_attach(proc, v->root, "proc");
        for (size_t n = 0; r == 0 && n < ARRAY_LEN(knobs); n++) {
                int tree = sys_tree_copy(proc, knobs[n]);
                if (tree == -ENOENT)
                        continue;
                if (tree >= 0 &&
                    (r = sys_tree_set(tree, ATTR_TREE | SYS_ATTR_RDONLY | SYS_ATTR_NOEXEC)) < 0) {
                        sys_close(tree);
                        break;
                }
                r = view_attach(tree, proc, knobs[n]);
        }
        if (r == 0)
                r = view_allow_writes(v, proc, true);
        if (r == 0)
                v->children = sys_openat(proc, "1/task/1/children", O_RDONLY);
        if (proc >= 0)
                sys_close(proc);
        return r;
}
