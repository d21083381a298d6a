/* sandboxed_rig: a directory tree, rules for it, and commands in sandboxes there, for the tests of sandboxes.
 *
 * W is a directory of the tree, and where commands start. Nothing of a command may be left after its end: rigged_close
 * checks the processes (spawn_rig.h) and that no placeholder is left. Include unit.h first.
 */
#pragma once

#include "proc/spawn_rig.h"

#include "base/arena.h"
#include "base/fd.h"
#include "sandbox/bwrap.h"
#include "sandbox/image.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp.h"

#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define RIGGED_OUTPUT_BYTES 65536

struct rigged {
        struct rig rig;
        struct arena arena;
        char dir[64]; /* has no symbolic links in it */
        struct rule rules[16];
        size_t count;
        bool has_network;
        enum backend backend;
        const struct bwrap *bwrap;      /* with BACKEND_BUBBLEWRAP */
        struct placeholder_locks locks; /* in the directory `state` of the tree */
        char out[RIGGED_OUTPUT_BYTES];
};

/* Skips the test, with a reason, where there can be no sandbox. */
static inline void rigged_or_skip(void)
{
        skip_in_valgrind("knows neither openat2 nor the mount calls");
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) == 0 ? 0 : errno);
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        if (status == 0)
                return;
        print_message("skipped: no namespaces here: %s\n", strerror(WEXITSTATUS(status)));
        skip();
}

static inline const char *rigged_path(struct rigged *b, const char *name)
{
        return arena_printf(&b->arena, "%s/%s", b->dir, name);
}

static inline bool rigged_has(struct rigged *b, const char *name)
{
        struct stat st;
        return lstat(rigged_path(b, name), &st) == 0;
}

static inline void rigged_mkdir(struct rigged *b, const char *name)
{
        eq_int(mkdir(rigged_path(b, name), 0755), 0);
}

static inline void rigged_write(struct rigged *b, const char *name, const char *text)
{
        _close_ int fd = open(rigged_path(b, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, slice_from_str(text)), 0);
}

static inline void rigged_add_rule(struct rigged *b, struct slice path, enum access access)
{
        ok(b->count < ARRAY_LEN(b->rules));
        b->rules[b->count++] = (struct rule){ path, access };
}

static inline void rigged_allow(struct rigged *b, const char *name, enum access access)
{
        rigged_add_rule(b, slice_from_str(rigged_path(b, name)), access);
}

static inline void rigged_open(struct rigged *b)
{
        *b = (struct rigged){ .arena = ARENA_INIT };
        snprintf(b->dir, sizeof(b->dir), "/var/tmp/farhand-box-XXXXXX");
        ok(mkdtemp(b->dir) != NULL);
        rigged_mkdir(b, "W");
        struct err err = ERR_INIT;
        rigged_mkdir(b, "state");
        eq_int(placeholder_locks_open(rigged_path(b, "state"), &b->locks, &err), 0);
        rig_open(&b->rig);
}

/* Opens a rig with these rules: the machine is read-only, and W may be written. */
static inline void rigged_open_workspace(struct rigged *b)
{
        rigged_open(b);
        rigged_add_rule(b, S("/"), ACCESS_READ);
        rigged_allow(b, "W", ACCESS_WRITE);
}

static inline int rigged_remove_one(const char *path, const struct stat *st, UNUSED int flag,
                                    UNUSED struct FTW *f)
{
        if ((st->st_mode & (S_ISVTX | 0222)) == S_ISVTX)
                fail_msg("left behind: %s", path);
        return remove(path);
}

static inline void rigged_close(struct rigged *b)
{
        rig_close(&b->rig);
        eq_int(nftw(b->dir, rigged_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
        arena_release(&b->arena);
}

static inline int rigged_rule_order(const void *a, const void *b)
{
        const struct rule *x = a, *y = b;
        size_t n = MIN(x->path.n, y->path.n);
        int r = memcmp(x->path.p, y->path.p, n);
        return r ? r : (x->path.n > y->path.n) - (x->path.n < y->path.n);
}

/* Makes the image for the commands that are started next. */
static inline void rigged_image(struct rigged *b)
{
        static struct seccomp_filter filters[2];
        struct err err = ERR_INIT;
        struct plan plan;
        qsort(b->rules, b->count, sizeof(b->rules[0]), rigged_rule_order);
        struct rules rules = { .limits_files = b->count > 0, .list = b->rules, .count = b->count };
        rules.reads_all = b->count > 0 && b->rules[0].path.n == 1;
        rules.has_platform = !rules.reads_all;
        if (plan_make(&b->arena, &(struct plan_input){ .rules = &rules, .has_network = b->has_network },
                      &plan, &err) < 0)
                fail_msg("%s", err.text);
        if (!filters[b->has_network].code)
                eq_int(seccomp_compile(b->has_network, &filters[b->has_network], &err), 0);
        struct image_extra extra = { .filter = &filters[b->has_network],
                                     .landlock_abi = landlock_abi(),
                                     .locks = &b->locks,
                                     .backend = b->backend,
                                     .bwrap = b->bwrap };
        _bwrap_arguments_ struct bwrap_arguments arguments = BWRAP_ARGUMENTS_INIT;
        if (b->bwrap) {
                eq_int(bwrap_arguments_make(&plan, landlock_abi() > 0, &arguments, &err), 0);
                extra.arguments = &arguments;
        }
        b->rig.bwrap = b->bwrap;
        b->rig.has_image = true;
        b->rig.image_fd = image_make(&plan, &extra);
        ok(b->rig.image_fd >= 0);
}

/* Starts a script in W. */
static inline void rigged_start_prepared(struct rigged *b, uint32_t number, const char *script)
{
        const char *const argv[] = { "sh", "-c", script, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        eq_int(rig_start_argv(&b->rig, number, argv, candidates, rigged_path(b, "W")), 0);
        close(b->rig.image_fd);
}

static inline void rigged_start(struct rigged *b, uint32_t number, const char *script)
{
        rigged_image(b);
        rigged_start_prepared(b, number, script);
}

/* Waits until the command has started and has printed `text`. */
static inline void rigged_wait_text(struct rigged *b, uint32_t number, const char *text)
{
        rig_wait(&b->rig, b->rig.seen[number].has_started || b->rig.seen[number].has_failed);
        if (b->rig.seen[number].has_failed)
                fail_msg("start failed at %s (operation %u): %s", b->rig.seen[number].step,
                         b->rig.seen[number].op, strerror(b->rig.seen[number].os_errno));
        rig_read(&b->rig, b->out, sizeof(b->out), text);
}

/* Runs a script to its end, and returns its status. Its output is in b->out. */
static inline int rigged_run(struct rigged *b, const char *script)
{
        struct rig_seen *seen = &b->rig.seen[1];
        *seen = (struct rig_seen){ 0 };
        rigged_start(b, 1, script);
        rig_wait(&b->rig, seen->has_gone);
        if (seen->has_failed)
                fail_msg("start failed at %s (operation %u): %s", seen->step, seen->op,
                         strerror(seen->os_errno));
        ssize_t n = read(b->rig.out[0], b->out, sizeof(b->out) - 1);
        b->out[n > 0 ? n : 0] = 0;
        ok(seen->has_exited);
        return seen->exit.status;
}

/* Returns the parent of a process, or 0 when there is none. */
static inline pid_t rigged_parent_of(pid_t pid)
{
        char path[64], text[512];
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = 0;
        int parent = 0;
        const char *rest = strrchr(text, ')');
        return rest && sscanf(rest + 1, " %*c %d", &parent) == 1 ? parent : 0;
}
