/* watch_law: what a watch with a permission profile may see: a law (fsop/law.h) that the watch and its passes share. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "fsop/law.h"

struct job;

struct watch_law {
        unsigned refs; /* the loop's alone, once it is made */
        struct arena arena;
        struct law law;
};

/* On a thread: for the request's sandbox. *ret is NULL when that forbids nothing. -errno with err. */
NODISCARD int watch_law_make(struct job *job, struct watch_law **ret, struct err *err);
struct watch_law *watch_law_ref(struct watch_law *l);   /* NULL is fine */
struct watch_law *watch_law_unref(struct watch_law *l); /* NULL is fine; returns NULL */
