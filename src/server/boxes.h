/* boxes: the sandboxes of processes, as requests ask for them, and what becomes of a process whose sandbox breaks.
 *
 * Somebody outside may take away what a mask lies on (sandbox/guard.h). Then the command is ended: more than its profile
 * allows would be open to it.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "loop/loop.h"
#include "sandbox/guard.h"
#include "sandbox/prepare.h"
#include "server/stub_book.h"

struct server;
struct process_start;
struct image;

struct boxes {
        struct preparer preparer;
        struct guard *guard; /* NULL when the system has no more inotify instances for us */
        struct watch *watch; /* of the guard */
        struct stub_book book;
        struct server *server;
};

/* What a start needs; the caller's to give back. */
struct box_made {
        int image_fd;        /* until the start is over; -1: none */
        struct image *image; /* the same, mapped */
        struct guard_hold *hold;
        struct stub_entries stubs;
        bool has_started;
        bool is_suspect; /* a stub came or went while it started */
};
#define BOX_NONE ((struct box_made){ .image_fd = -1 })

void boxes_init(struct boxes *b, struct server *server);
void boxes_release(struct boxes *b);

/* From any thread, blocks. `env`: of the command. -errno with err as the client sees it. */
NODISCARD int boxes_make(struct boxes *b, struct arena *a, const struct process_start *in,
                         const char *const *env, struct box_made *ret, struct err *err);
/* On the loop; or on any thread what boxes_make has just refused. */
void boxes_unmake(struct boxes *b, struct box_made *made);

struct task;
/* It has started: what happened meanwhile is looked at now. */
void boxes_on_started(struct task *t);
