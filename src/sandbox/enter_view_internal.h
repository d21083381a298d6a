/* enter_view_internal: between enter_view.c, which builds a view, and enter_dev.c, which builds /dev and /proc in it.
 *
 * Each 0 or a descriptor, or -errno.
 */
#pragma once

#include "sandbox/enter.h"
#include "sandbox/sys_mount.h"

#define ATTR_TREE (SYS_ATTR_NOSUID | SYS_ATTR_NODEV)

NODISCARD int view_tmpfs_make(const char *mode, const char *bytes, const char *inodes, unsigned attributes);
/* Attaches and closes; a negative tree passes through. */
NODISCARD int view_attach(int tree, int dir, const char *path);
/* Of Landlock's ruleset, if there is one. */
NODISCARD int view_allow_writes(const struct enter_view *v, int fd, bool is_directory);

/* Attached below v->root; v->dev stays open, and writable. */
NODISCARD int view_dev_make(struct enter_view *v);
NODISCARD int view_dev_console(struct enter_view *v, int tty_fd);
/* Also v->children. */
NODISCARD int view_proc_make(struct enter_view *v);
