/* sandboxed_internal: the messages between the keeper, the init of a sandbox and farhand-init, and the functions that they
 * share. */
#pragma once

#include "keeper/child.h"
#include "keeper/sandboxed.h"
#include "sandbox/finish.h"
#include "sandbox/verify.h"

#include <sys/uio.h>

/* The kinds of messages that the init sends to the keeper. */
enum {
        SANDBOXED_OVER = 1, /* execve is over */
        SANDBOXED_EXITED,   /* the command has exited */
        SANDBOXED_ALONE,    /* after the exit: no other process is left in the sandbox */
        SANDBOXED_OTHERS,   /* after the exit: other processes are left */
        /* From farhand-init: it waits for a byte that says that its view is finished; or it keeps the view until the socket
 * closes. */
        SANDBOXED_HERE,
};

/* What the init sends to the keeper. */
struct sandboxed_message {
        uint32_t kind;
        int32_t status;
        bool is_alone; /* with SANDBOXED_EXITED: no other process is in the sandbox */
        struct rusage usage;
        uint32_t failed_step; /* with SANDBOXED_OVER: from an init that does not share the keeper's memory */
        int32_t failed_errno;
        uint32_t failed_op;
};

/* The order that the keeper sends to farhand-init, with the stdio of the command and a memfd, the block. The block holds the image,
 * and behind it the strings of the command. */
struct sandboxed_order {
        uint32_t image_bytes;
        struct command_head command;
        uint32_t inherited; /* number of the first descriptor if bwrap passes them on; 0: they were sent */
        bool holds;         /* keeper_order::holds */
        bool has_inlets;    /* the keeper makes the inlets when farhand-init has said that it is there */
        bool is_intercepted;
        enum exec_asking asking;
        struct rlimit nofile;
        struct verify_spaces outside;
};
enum { SANDBOXED_FD_STDIN, SANDBOXED_FD_STDOUT, SANDBOXED_FD_STDERR, SANDBOXED_FD_BLOCK, SANDBOXED_FDS };

/* Runs in the init, once it has its view: locks itself in, makes the command, reports to the keeper, and reaps. */
NORETURN void sandboxed_init_run(struct keeper *k, const struct image *image, struct child_start *child);
/* Runs in the init of a prebuilt sandbox: makes a process that shares the memory and the descriptors of the init. */
NODISCARD int sandboxed_sibling_start(void (*fn)(void *), void *arg, pid_t *entering);

/* The process of a command that is not known yet. What `child` points at is filled in before may_go is set. */
struct sandboxed_waiter {
        struct child_start *child;
        pid_t pid;
        pid_t entering;    /* not 0 until execve is over */
        uint32_t may_go;   /* a futex: the order is there, and the view is filled */
        uint32_t may_exec; /* a futex: the view is checked */
        bool is_refused;   /* the view is not as it should be; `why` has the reason */
        struct enter_failure why;
};
/* Makes the waiter. Called by an init that is confined already, so that the waiter is confined from its first moment. */
NODISCARD int sandboxed_waiter_start(struct sandboxed_waiter *w);
/* Sets a futex of a waiter, and wakes the waiter. */
void sandboxed_gate_open(uint32_t *gate);
/* Runs in the init: waits for the builder, which lets the command go or not, and goes on as sandboxed_init_run does. */
NORETURN void sandboxed_waiter_await(struct keeper *k, struct sandboxed_waiter *w, pid_t builder,
                                     pid_t *building);
/* As sandboxed_init_run, for an init that exists before its order (sandboxed_ahead.c): waits for the order, and completes the
 * view. */
NORETURN void sandboxed_ahead_run(const struct keeper *k, struct enter_view *view, struct child_start *child);
/* Runs in the keeper of a prebuilt sandbox. Returns true when there is an order, or false when there will be none and the init is
 * gone. */
NODISCARD bool sandboxed_ahead_await(struct keeper *k, bool has_init);
/* Receives one packet with exactly `fd_count` descriptors, at most SANDBOXED_FDS. Returns the length of the packet, or -errno.
 * -EMFILE: the bytes came without the descriptors. */
NODISCARD long sandboxed_receive(int socket, struct iovec *parts, size_t part_count, int fds[],
                                 size_t fd_count);
/* Receives a message of the init or the command, and the pid of its sender as seen outside of the sandbox. A descriptor that comes
 * with it is put into *listener, and replaces what is there. Returns the length of the message, 0 at the end, or -errno. */
NODISCARD long sandboxed_message_receive(int socket, struct sandboxed_message *ret, pid_t *ret_sender,
                                         int *listener);
/* Sends the failure that `k` notes to the keeper, and ends the process. */
NORETURN void sandboxed_init_end(const struct keeper *k, int socket);

/* Makes the placeholders and starts bwrap. Returns 0 with `root` set, and the order for farhand-init waiting in ends[1]; or
 * -errno with failed_step set. *ret_errors_fd is where bwrap writes its errors, or -1. */
NODISCARD int sandboxed_bwrap_start(struct keeper *k, struct image *image, int ends[2], int *ret_errors_fd);
/* Copies the error message of a bwrap that ended before there was a command into the image. */
void sandboxed_bwrap_read_errors(struct image *image, int errors_fd);
/* Notes the namespaces of the machine, in which no process of a view of bwrap may be. Returns 0 or -errno. */
NODISCARD int sandboxed_outside(const struct keeper *k, struct verify_spaces *ret);
/* Finishes the view of farhand-init (sandbox/finish.h), which has the pid `init` as long as it has not closed its end of the
 * socket. Returns 0, or -errno with failed_step set. */
NODISCARD int sandboxed_finish(struct keeper *k, const struct image *image, int socket, pid_t init);
/* Returns 0 when the process at the other end of the socket has not closed it, or -errno. Called after something was opened by the
 * pid of that process: no other process had that pid then. */
NODISCARD int sandboxed_check_open(int socket);
/* Makes the inlets in the network of farhand-init, which has the pid `init` as long as it has not closed its end of the socket. Returns
 * 0 or -errno. */
NODISCARD int sandboxed_inlets_below(struct keeper *k, int socket, pid_t init);
/* Opens the namespaces of farhand-init, and makes sure that `init` is still its pid. Returns 0 or -errno. */
NODISCARD int sandboxed_finish_open(int socket, pid_t init, const struct verify_spaces *outside,
                                    struct finish *ret);

/* In sandboxed_messages.c: waits until the command reports that it is about to be executed, and then until the init reports that
 * execve is over. Returns the command's pid as seen outside, or 0: there is no command. */
NODISCARD pid_t sandboxed_hear_start(struct keeper *k, struct sandboxed *b, int socket);
/* Asks the kernel to send the keeper a signal for every message on the socket from here on. Returns false when the kernel
 * refuses that. */
NODISCARD bool sandboxed_listen(int socket);

/* In sandboxed_masks.c: raises the keeper's priority, so that it notices soon that a mask is gone. Called when the keeper has made
 * all processes of the sandbox, because later ones would inherit the priority. */
void sandboxed_masks_hurry(struct sandboxed *b, const struct image *image);
/* Begins to watch the masks. Called when the view has been built and `command` is in it; the image has the pids of the keeper
 * and the init. Returns false when a mask is gone already. */
NODISCARD bool sandboxed_masks_begin(struct sandboxed *b, struct image *image, pid_t command);

/* Makes a child of the keeper, with CLONE_* flags, in the command's cgroup. Returns its pid, or -errno.
 * *ret_enters_leaf is set when the child has to enter the cgroup itself. */
NODISCARD long sandboxed_process(struct keeper *k, uint64_t flags, void (*fn)(void *), void *arg,
                                 bool *ret_enters_leaf);

static inline void sandboxed_fail_at(struct keeper *k, uint32_t step, long r)
{
        k->failed_op = ENTER_NO_OP;
        k->failed_errno = (int32_t)-r;
        k->failed_step = step;
}
