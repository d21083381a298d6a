/* enter_check: compares the kernel's list of mounts with the view that was built, before a command runs in it.
 *
 * Each new mount has a larger number than all before it. Mounts of the machine are older than the root of the view. The mounts of
 * a new view are counted after it was begun. The mounts of the plan's operations come after these, each with copies of the mounts
 * below its source. Any other mount in the list refuses the start. On a kernel that cannot list mounts (before Linux 6.8) only one
 * thing is checked: that `/` and `/..` are the same directory of the same mount. It makes raw system calls only, as all code
 * between clone and execve does.
 */
#include "sandbox/bind.h"
#include "sandbox/enter_view_internal.h"

#include <errno.h>

#define STATX_MOUNT 0x1000        /* the number of a mount */
#define STATX_MOUNT_UNIQUE 0x4000 /* the number of a mount, which no other mount ever gets */
#define STATMOUNT_BASIC 2         /* the ids and attributes of a mount */
#define STATMOUNT_SPACE 64        /* the number of the mount namespace; Linux 6.11 */

/* The first members of the kernel's struct statmount. */
struct mount_facts {
        uint32_t size, options;
        uint64_t mask;
        uint32_t dev_major, dev_minor;
        uint64_t magic;
        uint32_t fs_flags, fs_type;
        uint64_t id, parent;
        uint32_t old_id, old_parent;
        uint64_t attributes;
        uint64_t propagation, peers, master, from;
        uint32_t root, point;
        uint64_t space; /* the number of the namespace that the mount is in */
        char rest[512 - 120];
};
_Static_assert(sizeof(struct mount_facts) == 512, "as the kernel has it");

static int mount_ask(uint64_t id, struct mount_facts *ret)
{
        const struct sys_mount_request request = { .size = SYS_MOUNT_REQUEST_FIRST,
                                                   .id = id,
                                                   .param = STATMOUNT_BASIC | STATMOUNT_SPACE };
        int r = (int)sys_call4(SYS_STATMOUNT, &request, ret, sizeof(*ret), 0);
        return r == 0 && !(ret->mask & STATMOUNT_BASIC) ? -EPROTO : r;
}

/* Returns the number of the mount of a descriptor; 0: the kernel does not tell. */
static uint64_t mount_id(int fd)
{
        struct statx st;
        long r = sys6(SYS_statx, fd, SYS_ARG(""), AT_EMPTY_PATH, STATX_MOUNT_UNIQUE, SYS_ARG(&st), 0);
        return r == 0 && (st.stx_mask & STATX_MOUNT_UNIQUE) ? st.stx_mnt_id : 0;
}

static bool has_attributes(uint64_t id, uint64_t wanted, struct mount_facts *ret)
{
        return mount_ask(id, ret) == 0 && (ret->attributes & wanted) == wanted;
}

void view_note_mount(const struct enter_view *v, const struct image_op *op, int tree)
{
        if (v->check.has_table)
                ((struct image_op *)(uintptr_t)op)->mount = mount_id(tree);
}

void view_note_console(struct enter_view *v, int tree)
{
        if (v->check.has_table)
                v->check.console = mount_id(tree);
}

/* ---- the mounts that the view begins with ---- */

/* Does a mount that the view begins with have the right attributes? Mounts that are older than /dev of the view are copies of
 * mounts of the machine. */
static bool has_first_attributes(const struct enter_view *v, uint64_t id, uint64_t dev)
{
        struct mount_facts facts;
        bool is_read_only = id < dev && v->image->root == PLAN_ROOT_READ;
        return has_attributes(id, SYS_ATTR_NOSUID | (is_read_only ? SYS_ATTR_RDONLY : 0), &facts);
}

int view_check_begin(struct enter_view *v)
{
        struct enter_check *c = &v->check;
        uint64_t ids[SYS_LISTMOUNT_MAX], dev = mount_id(v->dev);
        c->root = mount_id(v->root);
        c->has_table = c->root != 0;
        c->last = c->root; /* the mounts of the machine, still attached to this root, are older */
        long n = c->has_table ? SYS_LISTMOUNT_MAX : 0;
        while (n == SYS_LISTMOUNT_MAX) {
                n = sys_listmount(0, c->root, c->last, ids);
                if (n == -ENOSYS && c->count == 0)
                        c->has_table = false;
                else if (n < 0)
                        return (int)n;
                for (long i = 0; i < n; i++) {
                        if (!has_first_attributes(v, ids[i], dev))
                                return -EPROTO;
                        c->last = ids[i];
                        c->count++;
                }
        }
        return 0;
}

/* ---- the mounts of the plan's operations ---- */

/* Is this a copy of a mount that is below the source of an operation? */
static bool is_below(const struct image_op *op, uint64_t id)
{
        struct mount_facts facts;
        return op && plan_kind_row(op->kind)->act == PLAN_ACT_BIND &&
               has_attributes(id, bind_attributes(op->kind), &facts) && facts.parent >= op->mount &&
               facts.parent < id;
}

int view_check_table(const struct enter_view *v)
{
        const struct enter_check *c = &v->check;
        if (!c->has_table)
                return 0;
        struct image_cursor cursor = { .image = v->image };
        const struct image_op *now = NULL, *next = image_next_mount(&cursor);
        uint64_t ids[SYS_LISTMOUNT_MAX], last = 0, begun = 0;
        struct mount_facts facts;
        uint64_t of_root = ATTR_TREE | (v->image->root == PLAN_ROOT_WRITE ? 0 : SYS_ATTR_RDONLY);
        if (!has_attributes(c->root, of_root, &facts))
                return -EPROTO;
        ((struct image *)(uintptr_t)v->image)->mount_space = facts.mask & STATMOUNT_SPACE ? facts.space : 0;
        long n = SYS_LISTMOUNT_MAX;
        while (n == SYS_LISTMOUNT_MAX) {
                n = sys_listmount(0, SYS_LISTMOUNT_ROOT, last, ids);
                if (n < 0)
                        return (int)n;
                for (long i = 0; i < n; i++) {
                        last = ids[i];
                        if (last < c->root)
                                return -EPROTO; /* a mount of the machine */
                        if (last == c->root || last == c->console)
                                continue;
                        if (last <= c->last) {
                                begun++;
                        } else if (next && last == next->mount) {
                                if (!has_attributes(last, bind_attributes(next->kind), &facts))
                                        return -EPROTO;
                                now = next;
                                next = image_next_mount(&cursor);
                        } else if (!is_below(now, last)) {
                                return -EPROTO;
                        }
                }
        }
        return begun == c->count && !next ? 0 : -ESTALE;
}

static int look_at(const char *path, struct statx *ret)
{
        return (int)sys6(SYS_statx, AT_FDCWD, SYS_ARG(path), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_MOUNT,
                         SYS_ARG(ret), 0);
}

int view_check_root(int view)
{
        struct statx root, above, meant;
        int r = look_at("/", &root);
        if (r == 0)
                r = look_at("/..", &above);
        if (r == 0)
                r = (int)sys6(SYS_statx, view, SYS_ARG(""), AT_EMPTY_PATH, STATX_INO | STATX_MOUNT,
                              SYS_ARG(&meant), 0);
        if (r < 0)
                return r;
        const struct statx *all[] = { &above, &meant };
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
                if (all[i]->stx_ino != root.stx_ino || all[i]->stx_dev_major != root.stx_dev_major ||
                    all[i]->stx_dev_minor != root.stx_dev_minor || all[i]->stx_mnt_id != root.stx_mnt_id)
                        return -EPROTO;
        return 0;
}
