/* enter_view_internal: the functions that the sources of a view share: enter_view.c builds it, enter_dev.c builds its /dev
 * and /proc, enter_check.c checks the result.
 *
 * Each function returns 0 or a descriptor, or -errno.
 */
#pragma once

#include "sandbox/enter.h"
#include "sandbox/sys_mount.h"

#define ATTR_TREE (SYS_ATTR_NOSUID | SYS_ATTR_NODEV)

/* Makes a file system that is not attached yet. `options` are keys and values in turn, ended by NULL. */
NODISCARD int view_fs_make(const char *type, const char *const options[], unsigned attributes);
NODISCARD int view_tmpfs_make(const char *mode, const char *bytes, const char *inodes, unsigned attributes);
/* Attaches a mount and closes its descriptor; a negative `tree` is returned as it is. */
NODISCARD int view_attach(int tree, int dir, const char *path);
/* Makes /dev below v->root; v->dev stays open and writable. */
NODISCARD int view_dev_make(struct enter_view *v);
/* Mounts the terminal by the name that it has on the machine. Returns -ENOENT when the terminal has no name there. */
NODISCARD int view_dev_console(struct enter_view *v, int tty_fd);
/* Makes /proc and opens v->children. */
NODISCARD int view_proc_make(struct enter_view *v);

/* Checks of enter_check.c. view_check_begin is called after the view was begun, the other two when it is the caller's root. */
NODISCARD int view_check_begin(struct enter_view *v);
NODISCARD int view_check_table(const struct enter_view *v);
NODISCARD int view_check_root(int view);
/* Record the mount of an operation, or of the terminal, for view_check_table. */
void view_note_mount(const struct enter_view *v, const struct image_op *op, int tree);
void view_note_console(struct enter_view *v, int tree);
