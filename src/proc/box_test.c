/* Commands in sandboxes: what they see, how they end, what stays behind. */
#include "unit.h"

#include "proc/spawn_rig.h"

#include "base/buf.h"
#include "sandbox/image.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"

#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>

#define OUTPUT_BYTES 65536

/* A tree of its own: W is writable, the rest as the test says. */
struct boxed {
        struct rig rig;
        struct arena arena;
        char dir[64]; /* without links */
        struct rule rules[16];
        size_t count;
        bool has_network;
        char out[OUTPUT_BYTES];
};

static bool can_box(void)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) == 0 ? 0 : 1);
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        return status == 0;
}

static struct slice in_dir(struct boxed *b, const char *name)
{
        return slice_from_str(arena_printf(&b->arena, "%s/%s", b->dir, name));
}

static void allow(struct boxed *b, struct slice path, enum access access)
{
        ok(b->count < ARRAY_LEN(b->rules));
        b->rules[b->count++] = (struct rule){ path, access };
}

static int rule_order(const void *a, const void *b)
{
        const struct rule *x = a, *y = b;
        size_t n = MIN(x->path.n, y->path.n);
        int r = memcmp(x->path.p, y->path.p, n);
        return r ? r : (x->path.n > y->path.n) - (x->path.n < y->path.n);
}

static void boxed_open(struct boxed *b)
{
        *b = (struct boxed){ .arena = ARENA_INIT };
        snprintf(b->dir, sizeof(b->dir), "/var/tmp/farhand-box-XXXXXX");
        ok(mkdtemp(b->dir) != NULL);
        eq_int(mkdir(in_dir(b, "W").p, 0755), 0);
        rig_open(&b->rig);
}

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int flag, UNUSED struct FTW *f)
{
        return remove(path);
}

static void boxed_close(struct boxed *b)
{
        rig_close(&b->rig);
        eq_int(nftw(b->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
        arena_release(&b->arena);
}

static int boxed_plan(struct boxed *b, struct plan *ret, struct err *err)
{
        qsort(b->rules, b->count, sizeof(b->rules[0]), rule_order);
        struct rules rules = { .limits_files = b->count > 0, .list = b->rules, .count = b->count };
        rules.reads_all = b->count > 0 && b->rules[0].path.n == 1;
        rules.has_platform = !rules.reads_all;
        return plan_make(&b->arena, &rules, b->has_network, NULL, 0, ret, err);
}

static void boxed_image(struct boxed *b)
{
        struct err err = ERR_INIT;
        struct plan plan;
        int r = boxed_plan(b, &plan, &err);
        if (r < 0)
                fail_msg("%s", err.text);
        static struct seccomp_filter filters[2];
        if (!filters[b->has_network].code)
                eq_int(seccomp_compile(b->has_network, &filters[b->has_network], &err), 0);
        struct image_extra extra = { .filter = &filters[b->has_network], .landlock_abi = landlock_abi() };
        b->rig.has_image = true;
        b->rig.image_fd = image_make(&plan, &extra);
        ok(b->rig.image_fd >= 0);
}

/* Runs a script in W to its end; gives its status. */
static int run(struct boxed *b, const char *script)
{
        boxed_image(b);
        const char *const argv[] = { "sh", "-c", script, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        eq_int(rig_start_argv(&b->rig, 1, argv, candidates, in_dir(b, "W").p), 0);
        close(b->rig.image_fd);
        rig_wait(&b->rig, b->rig.seen[1].has_gone);
        if (b->rig.seen[1].has_failed)
                fail_msg("start failed at %s (operation %u): %s", b->rig.seen[1].step, b->rig.seen[1].op,
                         strerror(b->rig.seen[1].os_errno));
        ssize_t n = read(b->rig.out[0], b->out, sizeof(b->out) - 1);
        b->out[n > 0 ? n : 0] = 0;
        int status = b->rig.seen[1].exit.status;
        b->rig.seen[1] = (struct rig_seen){ 0 };
        return status;
}

static void workspace(struct boxed *b)
{
        allow(b, S("/"), ACCESS_READ);
        allow(b, in_dir(b, "W"), ACCESS_WRITE);
}

TEST(a_command_writes_its_workspace_and_nothing_else)
{
        if (!can_box())
                skip();
        struct boxed b;
        boxed_open(&b);
        workspace(&b);
        int status = run(&b, "echo in > new; cat new; echo out > ../out; echo $?; pwd; echo $$; ls -a");
        eq_int(status, 0);
        print_message("%s", b.out);
        eq_int(access(in_dir(&b, "W/new").p, F_OK), 0);
        eq_int(access(in_dir(&b, "out").p, F_OK), -1);
        eq_int(access(in_dir(&b, "W/.git").p, F_OK), -1);
        boxed_close(&b);
}
