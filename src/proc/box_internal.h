/* box_internal: what the keeper, the init of a sandbox and farhand-init say to each other, and what they share. */
#pragma once

#include "proc/box.h"
#include "proc/child.h"
#include "sandbox/verify.h"

#include <sys/uio.h>

enum { BOX_OVER = 1, BOX_EXITED, BOX_ALONE, BOX_OTHERS };

/* From the init. */
struct box_message {
        uint32_t kind;
        int32_t status;
        bool is_alone; /* exited: nobody else is in there, which need not be asked for */
        struct rusage usage;
        uint32_t failed_step; /* over: of an init that does not share the keeper's memory */
        int32_t failed_errno;
        uint32_t failed_op;
};

/* To farhand-init, with the command's stdio and a block: the image, and behind it cwd, argv, env and candidates, each string
 * with its NUL. */
struct box_order {
        uint32_t image_bytes;
        uint32_t argc, envc, candidatec;
        uint64_t bytes; /* of the block */
        bool is_tty;
        struct rlimit nofile;
        struct spawn_limits limits;
        struct verify_spaces outside;
};
enum { BOX_FD_STDIN, BOX_FD_STDOUT, BOX_FD_STDERR, BOX_FD_BLOCK, BOX_FDS };

/* In the init, once it has its view: locks itself in, makes the command, tells the keeper, and reaps. */
NORETURN void box_init_run(struct keeper *k, const struct image *image, struct child_start *child);
/* The same for an init that was there before its order (box_ahead.c): waits for it, and does what is left of the view. */
NORETURN void box_ahead_run(const struct keeper *k, struct enter_view *view, struct child_start *child);
/* Its keeper: until there is an order, or there will be none; then the init is gone. */
NODISCARD bool box_ahead_await(struct keeper *k, bool has_init);
/* One packet with all of these descriptors, at most BOX_FDS: its bytes, or -errno. */
NODISCARD long box_receive(int socket, struct iovec *parts, size_t part_count, int fds[], size_t fd_count);
/* What `k` says of a failure, to the keeper; and ends. */
NORETURN void box_init_end(const struct keeper *k, int socket);

/* The keeper's half of a start with bwrap, stubs included: 0 with `root` set, or -errno with failed_step. What the keeper has
 * to tell farhand-init waits in ends[1] then. *ret_words is where bwrap writes its errors, or -1. */
NODISCARD int box_bwrap_start(struct keeper *k, struct image *image, int ends[2], int *ret_words);
/* It ended before there was a command: what it said goes into the image. */
void box_bwrap_listen(struct image *image, int words);

/* A process that is the keeper's child, with CLONE_* flags, in the command's cgroup; or -errno. */
NODISCARD long box_process(struct keeper *k, uint64_t flags, void (*fn)(void *), void *arg,
                           bool *ret_enters_leaf);

static inline void box_fail_at(struct keeper *k, uint32_t step, long r)
{
        k->failed_op = ENTER_NO_OP;
        k->failed_errno = (int32_t)-r;
        k->failed_step = step;
}
