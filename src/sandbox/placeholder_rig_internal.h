/* placeholder_rig: makes images with placeholders in a temporary tree. Only for x_test.c; include unit.h first. */
#pragma once

#include "base/tree_rig.h"
#include "plan/placeholder_mark.h"
#include "sandbox/placeholder.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* Returns locks that count the users of placeholders in a directory of this name. */
static inline const struct placeholder_locks *locks_in(struct tree_rig *rig, const char *name)
{
        struct placeholder_locks *locks = arena_new(&rig->arena, struct placeholder_locks);
        struct err err = ERR_INIT;
        (void)mkdir(at(rig, name), 0700);
        if (placeholder_locks_open(at(rig, name), locks, &err) < 0)
                fail_msg("%s", err.text);
        return locks;
}

/* Returns an image with one placeholder for each name, which is a directory if the name ends in a slash. The directories above
 * the placeholders must exist. */
static inline struct image *image_with(struct tree_rig *rig, const struct placeholder_locks *locks,
                                       const char *const *names)
{
        static const struct seccomp_filter no_filter;
        const struct image_extra extra = { .filter = &no_filter, .locks = locks };
        struct plan_placeholder placeholders[8];
        struct plan_op ops[8];
        struct plan plan = { .has_view = true, .ops = ops, .placeholders = placeholders };
        for (; names[plan.placeholder_count]; plan.placeholder_count++, plan.op_count++) {
                size_t n = plan.placeholder_count;
                struct stat st;
                ok(n < ARRAY_LEN(placeholders));
                char *path = arena_dup(&rig->arena, slice_from_str(at(rig, names[n])));
                bool is_directory = path[strlen(path) - 1] == '/';
                path[strlen(path) - is_directory] = 0;
                char *above = arena_dup(&rig->arena, slice_from_str(path));
                *strrchr(above, '/') = 0;
                eq_int(lstat(above, &st), 0);
                placeholders[n] = (struct plan_placeholder){ .path = slice_from_str(path),
                                                             .is_directory = is_directory,
                                                             .op = n,
                                                             .dev = st.st_dev,
                                                             .ino = st.st_ino };
                ops[n] = (struct plan_op){ .kind = PLAN_PREVENT,
                                           .is_directory = is_directory,
                                           .path = slice_from_str(path) };
        }
        int fd = image_make(&plan, &extra);
        ok(fd >= 0);
        struct image *i = image_map(fd);
        ok(i != NULL);
        close(fd);
        return i;
}
#define IMAGE(rig, ...) image_with(rig, locks_in(rig, ".state"), (const char *const[]){ __VA_ARGS__, NULL })

static inline struct image_placeholder *placeholder_of(struct image *i, size_t n)
{
        return (struct image_placeholder *)(uintptr_t)image_at(i, i->placeholders) + n;
}

static inline const struct image_op *op_of(struct image *i, size_t n)
{
        return (const struct image_op *)image_at(i, i->ops) + n;
}

static inline void make(struct image *i)
{
        struct enter_failure why = { 0 };
        eq_int(placeholders_make(i, &why), 0);
}

static inline void end(struct image *i)
{
        placeholders_remove(i, true);
        placeholders_forget(i);
        image_unmap(i);
}

static inline bool exists(struct tree_rig *rig, const char *name)
{
        struct stat st;
        return lstat(at(rig, name), &st) == 0;
}

static inline void fails(struct image *i, int code, uint32_t number)
{
        struct enter_failure why = { 0 };
        eq_int(placeholders_make(i, &why), code);
        eq_int(why.step, ENTER_PLACEHOLDER);
        eq_int(why.os_errno, -code);
        eq_u64(why.op, number);
        for (uint32_t n = 0; n < i->placeholder_count; n++)
                ok(placeholder_of(i, n)->fd < 0);
        image_unmap(i);
}

static inline void write_text(struct tree_rig *rig, const char *name, const char *text)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, slice_from_str(text)), 0);
}

static inline int free_descriptor(void)
{
        int fd = dup(0);
        close(fd);
        return fd;
}

static inline void make_and_die(struct image *i)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                struct enter_failure why;
                if (placeholders_make(i, &why) < 0)
                        _exit(1);
                (void)raise(SIGKILL);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFSIGNALED(status));
}
