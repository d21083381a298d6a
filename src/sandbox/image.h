/* image: a plan as one block of memory without pointers, in a memfd: what the keeper and the command's init work from.
 *
 * They share their memory with nobody they could trust to keep a heap in order, so everything is laid out beforehand:
 * offsets from the start of the block, strings with a NUL behind them. Both ends are the same executable.
 *
 * The spawner maps it, shared, as long as the command lives. The init reads the operations; the keeper notes in it which
 * stubs it has made (sandbox/stub.h), so that the spawner can remove them after a keeper that was killed.
 */
#pragma once

#include "sandbox/backend.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"

#include <sys/stat.h>

#define IMAGE_BYTES_MAX (16 * 1024 * 1024)

struct image_op {
        uint16_t kind; /* enum plan_kind */
        uint8_t is_directory, may_miss;
        uint8_t is_guarded;  /* see guard.h */
        uint8_t is_on_stub;  /* there is nothing to do it on before the stubs are made */
        uint32_t path, text; /* a path is without its leading slash */
        uint64_t dev, ino;
        uint64_t born; /* of what the operation was done on, as image_born gives it; written by who does it */
};

struct image_stub {
        uint32_t path; /* with its leading slash */
        uint32_t name; /* the last component of it */
        uint32_t is_directory;
        uint32_t op;   /* that lies on it */
        int32_t fd;    /* the keeper's, locked; -1 */
        int32_t dir;   /* the keeper's, of the directory that it is in: wherever that is by the end; -1 */
        int32_t spent; /* the keeper's, of a stub that it has removed; -1 */
        struct bwrap_stub lid; /* where in bwrap's arguments */
        uint64_t parent_dev, parent_ino;
        uint64_t dev, ino; /* of the stub, once it is there */
};

struct image {
        uint32_t bytes;
        uint32_t
                is_over; /* the tree is gone, or never was: stubs are being removed. Written by the keeper or the spawner */
        uint32_t
                stubs_due; /* somebody is making the stubs: who enters waits for them, at the first operation on one */
        uint32_t backend; /* enum backend */
        uint32_t has_view, has_network;
        uint32_t root; /* enum plan_root */
        uint32_t
                needs_user; /* a user namespace: not when we are root and only the network is taken away, nor with Landlock alone */
        uint32_t uid, gid;
        uint32_t landlock_abi; /* 0: none */
        uint32_t hides_proc;   /* of Landlock alone: the process must not find itself in /proc */
        uint32_t ops, op_count;
        uint32_t stubs, stub_count;
        uint32_t filter, filter_count; /* struct sock_filter */
        /* sandbox/bwrap.h */
        uint32_t program, init;
        uint32_t arguments, arguments_bytes, arguments_others;
        uint32_t empties;
        char words[BWRAP_WORDS_MAX]; /* what bwrap had to say; written by the keeper */
};

struct image_extra {
        enum backend backend;
        const struct seccomp_filter *filter;
        int landlock_abi;
        bool hides_proc;
        const struct bwrap *bwrap; /* with BACKEND_BUBBLEWRAP only */
        const struct bwrap_arguments *arguments;
};

/* A memfd whose size cannot change, or -errno. */
NODISCARD int image_make(const struct plan *p, const struct image_extra *extra);

/* Shared and writable; NULL when it cannot be. NULL is fine for unmap. Raw, as the init needs it. */
NODISCARD struct image *image_map(int fd);
void image_unmap(struct image *i);

/* Does the command have an init above it? Where there is a view to be built, and where somebody else builds it. */
static inline bool image_has_init(const struct image *i)
{
        return i->backend == BACKEND_BUBBLEWRAP || (i->has_view && i->backend == BACKEND_NAMESPACES);
}

/* What a sandbox is before the first of its operations: the same for many commands. */
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
                               .landlock_abi = i->landlock_abi };
}

static inline bool image_is_alike(const struct image *a, const struct image *b)
{
        return a->backend == b->backend && a->has_view == b->has_view && a->has_network == b->has_network &&
               a->root == b->root && a->needs_user == b->needs_user && a->uid == b->uid && a->gid == b->gid &&
               a->landlock_abi == b->landlock_abi;
}

/* In nanoseconds; 0: the file system does not say. */
static inline uint64_t image_born(const struct statx *st)
{
        if (!(st->stx_mask & STATX_BTIME))
                return 0;
        return (uint64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec;
}

/* Processes that belong to the sandbox and not to the command: the init, and bwrap. */
static inline uint32_t image_helpers(const struct image *i)
{
        return i->backend == BACKEND_BUBBLEWRAP ? 2 : image_has_init(i);
}

static inline const void *image_at(const struct image *i, uint32_t offset)
{
        return (const char *)i + offset;
}
