/* image: a plan as one block of memory without pointers, in a memfd, for the keeper and the init of a command.
 *
 * Keeper and init share their memory with other processes and cannot use the heap, so everything is laid out in advance:
 * offsets from the start of the block, and NUL-terminated strings. The same executable writes and reads the block.
 *
 * The spawner keeps the image mapped, shared, as long as the command lives. The init reads the operations. The keeper records the
 * placeholders that it has made (sandbox/placeholder.h), so that the spawner can remove them when the keeper was killed.
 */
#pragma once

#include "plan/plan.h"
#include "sandbox/backend_kind.h"
#include "sandbox/bwrap.h"
#include "sandbox/placeholder_lock.h"
#include "sandbox/seccomp.h"
#include "sandbox/user_limits.h"

#include <signal.h>
#include <sys/stat.h>

#define IMAGE_BYTES_MAX (16 * 1024 * 1024)

struct image_op {
        uint16_t kind; /* enum plan_kind */
        uint8_t is_directory, may_be_missing;
        uint8_t is_guarded;        /* the guard watches its mount (confine/guard.h) */
        uint8_t is_on_placeholder; /* the path exists only after the placeholders were made */
        uint32_t path, text;       /* offsets; the path has no leading slash */
        uint64_t dev, ino;
        /* birth time of the file that the operation was done on, as statx_born gives it; the init records it */
        uint64_t born;
        /* the number of the mount that the operation made; 0: none, or not known. The init records it */
        uint64_t mount;
};

/* The state of a placeholder. */
enum placeholder_state {
        PLACEHOLDER_UNMADE, /* not begun */
        PLACEHOLDER_USED,   /* made, or about to be: it has to be removed */
        PLACEHOLDER_GONE,   /* removed; or replaced by something else, which stays */
        PLACEHOLDER_OTHERS, /* other commands use it, and the last of them removes it */
        PLACEHOLDER_STUCK,  /* no command uses it, and it could not be removed */
};

struct image_placeholder {
        uint32_t path; /* the offset of the path, which has its leading slash */
        uint32_t name; /* the offset of the last component of the path */
        uint32_t is_directory;
        uint32_t op; /* the number of the operation that mounts a mask on the placeholder */
        /* enum placeholder_state; the keeper writes it, or the process that removes the placeholders of a dead keeper */
        uint32_t state;
        int32_t os_errno; /* why the placeholder is PLACEHOLDER_STUCK */
        /* the keeper has made the placeholder itself, and did not find one of another command */
        uint32_t is_ours;
        uint32_t is_taken;  /* the keeper holds the lock of `byte` */
        uint32_t is_common; /* the keeper also holds the lock of `common_byte` */
        /* the bytes that are locked in the file of the user and in that of all users (placeholder_lock.h) */
        uint64_t byte, common_byte;
        int32_t fd;    /* the keeper's descriptor of the placeholder; or -1 */
        int32_t dir;   /* the keeper's descriptor of the directory, which may be renamed meanwhile; or -1 */
        int32_t spent; /* the keeper's descriptor of a removed placeholder; or -1 */
        struct bwrap_placeholder bwrap; /* the arguments of bwrap that mount the mask on the placeholder */
        uint64_t parent_dev, parent_ino;
        uint64_t dev, ino; /* the identity of the placeholder, once it exists */
};

/* The places in image::line, from the spawner down to the command. With bwrap, bwrap is at IMAGE_INIT and the init below it. */
enum { IMAGE_SPAWNER, IMAGE_KEEPER, IMAGE_INIT, IMAGE_BELOW_INIT, IMAGE_LINE = IMAGE_BELOW_INIT + 2 };
#define IMAGE_KEEPER_KILL SIGTERM /* the signal that makes the keeper kill everything below it */

/* The members `ops`, `placeholders`, `locks`, `filter`, `arguments` and `arguments_others` are offsets. */
struct image {
        uint32_t bytes;
        /* the processes are gone, or never started, and the placeholders are being removed. The keeper or the spawner
         * writes it */
        uint32_t is_over;
        /* the keeper is still making the placeholders: the init waits before the first operation on one */
        uint32_t placeholders_due;
        uint32_t backend; /* enum backend */
        uint32_t has_view, has_network;
        uint32_t root; /* enum plan_root */
        /* whether a user namespace is needed: not for root without a view, and not with Landlock alone */
        uint32_t needs_user;
        uint32_t uid, gid;
        struct user_limits limits; /* the limits of the user namespace */
        uint32_t landlock_abi;     /* 0: Landlock is not used */
        uint32_t hides_proc;       /* with Landlock alone: the process must not read its own entry in /proc */
        uint32_t ops, op_count;
        uint32_t placeholders, placeholder_count;
        /* the path of the lock file of the placeholders (placeholder_lock.h); 0: there is none */
        uint32_t locks;
        int32_t lock_fd, common_fd; /* the keeper's descriptors of the lock files; or -1 */
        /* a process holds a lock in the common file and does not release it: the keeper does not wait for it again */
        uint32_t common_is_kept;
        uint32_t filter, filter_count; /* an array of struct sock_filter */
        /* The members from here to `words` are for bwrap (sandbox/bwrap.h). */
        /* the identities of bwrap and of farhand-init; `init` is compared only when init_is_copy is 0 */
        struct helper_mark program, init;
        uint32_t init_is_copy;
        uint32_t finishes; /* the keeper completes the view that bwrap has built (sandbox/finish.h) */
        uint32_t arguments, arguments_bytes, arguments_others;
        uint32_t empties;            /* bwrap_arguments::empties */
        char words[BWRAP_WORDS_MAX]; /* the message of bwrap; the keeper writes it */
        /* the number of the command's mount namespace, where the kernel tells it; written by the init */
        uint64_t mount_space;
        /* the pids of the processes from the spawner down to the command, as the machine numbers them. Each process is, or
         * was, the parent of the next. 0: not started. The keeper writes them */
        int32_t line[IMAGE_LINE];
        /* a mask was detached from outside; written before the command is killed for that */
        uint32_t is_broken;
};

struct image_extra {
        enum backend backend;
        struct user_limits limits;
        const struct seccomp_filter *filter;
        int landlock_abi;
        bool hides_proc;
        const struct bwrap *bwrap; /* with BACKEND_BUBBLEWRAP only */
        const struct bwrap_arguments *arguments;
        const struct placeholder_locks *locks; /* NULL: no placeholder can be made */
};

/* Lays out the plan as an image. Returns a memfd whose size cannot change, or -errno. */
NODISCARD int image_make(const struct plan *p, const struct image_extra *extra);

/* Maps the image shared and writable; NULL when that fails. Makes raw system calls only, because the init calls it. image_unmap
 * accepts NULL. */
NODISCARD struct image *image_map(int fd);
void image_unmap(struct image *i);

/* Does the command have an init? Yes, wherever there are namespaces. */
static inline bool image_has_init(const struct image *i)
{
        return i->backend != BACKEND_LANDLOCK;
}

/* Returns the part of an image that is the same for many commands, without operations and filter: what a prebuilt sandbox
 * is made from. */
static inline struct image image_head(const struct image *i)
{
        return (struct image){ .bytes = sizeof(*i),
                               .backend = i->backend,
                               .has_view = i->has_view,
                               .has_network = i->has_network,
                               .root = i->root,
                               .needs_user = i->needs_user,
                               .uid = i->uid,
                               .gid = i->gid,
                               .limits = i->limits,
                               .landlock_abi = i->landlock_abi };
}

/* Can a prebuilt sandbox that was made from one image be used for the other? */
static inline bool image_is_alike(const struct image *a, const struct image *b)
{
        return a->backend == b->backend && a->has_view == b->has_view && a->has_network == b->has_network &&
               a->root == b->root && a->needs_user == b->needs_user && a->uid == b->uid && a->gid == b->gid &&
               a->landlock_abi == b->landlock_abi;
}

/* Returns how many processes belong to the sandbox and not to the command: the init, and bwrap. */
static inline uint32_t image_helpers(const struct image *i)
{
        return i->backend == BACKEND_BUBBLEWRAP ? 2 : image_has_init(i);
}

static inline const void *image_at(const struct image *i, uint32_t offset)
{
        return (const char *)i + offset;
}

/* A walk over the operations that have mounted something, in the order of mounting: those on placeholders come last, so the
 * numbers of the mounts grow. image_next_mount returns NULL at the end. */
struct image_cursor {
        const struct image *image;
        bool is_on_placeholders;
        uint32_t next;
};

static inline const struct image_op *image_next_mount(struct image_cursor *c)
{
        const struct image_op *ops = image_at(c->image, c->image->ops);
        for (;;) {
                for (; c->next < c->image->op_count; c->next++)
                        if (ops[c->next].mount && ops[c->next].is_on_placeholder == c->is_on_placeholders)
                                return &ops[c->next++];
                if (c->is_on_placeholders)
                        return NULL;
                c->is_on_placeholders = true;
                c->next = 0;
        }
}
