/* guard_test: the owner of a sandbox, and no other owner, is notified when a process outside changes a path under its masks. */
#include "unit.h"

#include "base/tree_rig.h"
#include "confine/guard.h"
#include "sandbox/image.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#define OPS_MAX 8
/* The test that fills the event queue of inotify is skipped when that queue holds more events. */
#define QUEUE_MAX 65536

/* One sandbox. */
struct held {
        struct plan plan;
        struct plan_op ops[OPS_MAX];
        struct plan_placeholder placeholders[OPS_MAX];
        struct image *image;
        struct guard_hold *hold;
        int told, told_of_placeholder;
};

static struct guard *guard_get(void)
{
        struct guard *g;
        struct err err = ERR_INIT;
        if (guard_new(&g, &err) < 0)
                fail_msg("%s", err.text);
        return g;
}

static void mask(struct held *h, struct tree_rig *rig, const char *name, bool is_placeholder)
{
        size_t n = h->plan.op_count;
        struct stat st = { 0 };
        ok(n < OPS_MAX);
        const char *path = at(rig, name);
        ok(is_placeholder || lstat(path, &st) == 0);
        h->ops[n] = (struct plan_op){ .kind = PLAN_HIDE,
                                      .is_guarded = true,
                                      .path = slice_from_str(path),
                                      .dev = st.st_dev,
                                      .ino = st.st_ino };
        if (is_placeholder)
                h->placeholders[h->plan.placeholder_count++] =
                        (struct plan_placeholder){ .path = slice_from_str(path), .op = n };
        h->plan.ops = h->ops;
        h->plan.placeholders = h->placeholders;
        h->plan.op_count++;
}

static void hold(struct guard *g, struct held *h)
{
        struct err err = ERR_INIT;
        if (guard_hold(g, &h->plan, h->image, &h->hold, &err) < 0)
                fail_msg("%s", err.text);
        ok(h->hold != NULL);
        guard_set_owner(g, h->hold, h);
}

static void let_go(struct guard *g, struct held *h)
{
        h->hold = guard_let_go(g, h->hold);
        ok(h->hold == NULL);
}

static void on_broken(void *owner, enum guard_event event)
{
        struct held *h = owner;
        h->told++;
        h->told_of_placeholder += event == GUARD_PLACEHOLDER;
}

/* Was the owner notified since the last call? */
static bool is_told(struct guard *g, struct held *h)
{
        int before = h->told;
        guard_read(g, on_broken);
        ok(h->told - before <= 1); /* one notification for several events */
        return h->told > before;
}

/* Returns the number of watched directories, from the kernel. */
static size_t watches(const struct guard *g)
{
        char path[64], line[512];
        size_t n = 0;
        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", guard_fd(g));
        FILE *f = fopen(path, "re");
        ok(f != NULL);
        while (fgets(line, sizeof(line), f))
                n += strncmp(line, "inotify ", 8) == 0;
        fclose(f);
        return n;
}

static struct image *image_of(const struct plan *plan)
{
        static const struct seccomp_filter filter;
        const struct image_extra extra = { .filter = &filter };
        _close_ int fd = image_make(plan, &extra);
        ok(fd >= 0);
        struct image *i = image_map(fd);
        ok(i != NULL);
        return i;
}

/* ---- events ---- */

TEST(whatever_moves_on_the_way_to_a_mask_is_told)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, "w");
        put_directory(&rig, "w/a");
        put_directory(&rig, "w/a/no");
        mask(&h, &rig, "w/a/no", false);
        hold(g, &h);
        ok(!is_told(g, &h));
        static const char *const names[] = { "w/a/no", "w/a", "w" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++) {
                const char *aside = arena_printf(&rig.arena, "%s.aside", names[n]);
                move_to(&rig, names[n], aside);
                ok(is_told(g, &h));
                move_to(&rig, aside, names[n]);
                ok(is_told(g, &h));
        }
        eq_int(h.told_of_placeholder, 0);
        eq_int(rmdir(at(&rig, "w/a/no")), 0);
        ok(is_told(g, &h));
        let_go(g, &h);
        eq_u64(watches(g), 0);
        (void)guard_free(g);
}

TEST(a_file_that_is_saved_over_is_told)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_file(&rig, "secret");
        put_file(&rig, "other");
        mask(&h, &rig, "secret", false);
        hold(g, &h);
        put_file(&rig, "secret.new");
        ok(!is_told(g, &h));
        move_to(&rig, "secret.new", "secret"); /* as editors do */
        ok(is_told(g, &h));
        eq_int(unlink(at(&rig, "secret")), 0);
        ok(is_told(g, &h));
        let_go(g, &h);
        (void)guard_free(g);
}

TEST(what_happens_beside_and_in_a_mask_is_nobodys_business)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, "w");
        put_directory(&rig, "w/no");
        mask(&h, &rig, "w/no", false);
        hold(g, &h);
        put_file(&rig, "w/no/x");
        move_to(&rig, "w/no/x", "w/no/y");
        put_file(&rig, "w/nono");
        put_file(&rig, "w/n");
        move_to(&rig, "w/nono", "w/other");
        eq_int(unlink(at(&rig, "w/n")), 0);
        eq_int(chmod(at(&rig, "w/no"), 0700), 0);
        ok(!is_told(g, &h));
        let_go(g, &h);
        (void)guard_free(g);
}

TEST(that_only_placeholders_are_concerned_is_told_too)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, "no");
        mask(&h, &rig, ".git", true);
        mask(&h, &rig, "no", false);
        hold(g, &h);
        put_directory(&rig, ".git"); /* stands for the placeholder that a keeper makes */
        ok(!is_told(g, &h));
        eq_int(rmdir(at(&rig, ".git")), 0);
        ok(is_told(g, &h));
        eq_int(h.told_of_placeholder, 1);
        put_directory(&rig, "x");
        move_to(&rig, "x", ".git");
        ok(is_told(g, &h));
        eq_int(h.told_of_placeholder, 2);
        /* Of two events the worse one is reported, in either order. */
        eq_int(rmdir(at(&rig, ".git")), 0);
        move_to(&rig, "no", "x");
        ok(is_told(g, &h));
        eq_int(h.told_of_placeholder, 2);
        put_directory(&rig, ".git");
        move_to(&rig, "x", "no");
        eq_int(rmdir(at(&rig, ".git")), 0);
        ok(is_told(g, &h));
        eq_int(h.told_of_placeholder, 2);
        let_go(g, &h);
        (void)guard_free(g);
}

TEST(a_placeholder_that_a_sandbox_does_without_may_go)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, ".git");
        put_directory(&rig, "ours");
        mask(&h, &rig, ".git", true);
        mask(&h, &rig, "ours", true);
        h.ops[0].may_be_missing = true; /* as a keeper records it */
        hold(g, &h);
        struct image *i = image_of(&h.plan);
        guard_allow_missing(g, h.hold, i);
        eq_int(rmdir(at(&rig, ".git")), 0);
        ok(!is_told(g, &h));
        put_directory(&rig, "x");
        move_to(&rig, "x", ".git");
        ok(is_told(g, &h));
        eq_int(rmdir(at(&rig, "ours")), 0);
        ok(is_told(g, &h));
        image_unmap(i);
        let_go(g, &h);
        (void)guard_free(g);
}

/* Keepers make and remove placeholders, but do not move them. */
TEST(a_placeholder_that_is_moved_away_is_a_mask_that_is_gone)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        mask(&h, &rig, ".git", true);
        hold(g, &h);
        put_directory(&rig, ".git");
        move_to(&rig, ".git", "x");
        ok(is_told(g, &h));
        eq_int(h.told_of_placeholder, 0);
        let_go(g, &h);
        (void)guard_free(g);
}

TEST(a_directory_above_a_placeholder_is_no_placeholder)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, "w");
        mask(&h, &rig, "w/.git", true);
        hold(g, &h);
        move_to(&rig, "w", "x");
        ok(is_told(g, &h));
        eq_int(h.told_of_placeholder, 0);
        let_go(g, &h);
        (void)guard_free(g);
}

TEST(the_guard_wakes_who_waits_for_it)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, "no");
        mask(&h, &rig, "no", false);
        hold(g, &h);
        struct pollfd p = { .fd = guard_fd(g), .events = POLLIN };
        eq_int(poll(&p, 1, 0), 0);
        eq_int(rmdir(at(&rig, "no")), 0);
        eq_int(poll(&p, 1, 10000), 1);
        ok(is_told(g, &h));
        eq_int(poll(&p, 1, 0), 0);
        let_go(g, &h);
        (void)guard_free(g);
}

/* Causes events until the queue of inotify is full; inotify then reports that events were lost. */
TEST(when_events_are_lost_everybody_is_told)
{
        long size = 0;
        FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
        if (f) {
                (void)!fscanf(f, "%ld", &size);
                fclose(f);
        }
        if (size <= 0 || size > QUEUE_MAX) {
                print_message("skipped: the queue holds %ld events\n", size);
                skip();
        }
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held near = { 0 }, far = { 0 }, placeholder = { 0 };
        put_directory(&rig, "one");
        put_directory(&rig, "one/no");
        put_directory(&rig, "two");
        put_directory(&rig, "two/no");
        mask(&near, &rig, "one/no", false);
        mask(&far, &rig, "two/no", false);
        mask(&placeholder, &rig, "two/.git", true);
        hold(g, &near);
        hold(g, &far);
        hold(g, &placeholder);
        put_file(&rig, "one/a");
        const char *a = at(&rig, "one/a"), *b = at(&rig, "one/b");
        for (long n = 0; n < size; n += 2) {
                eq_int(rename(a, b), 0);
                eq_int(rename(b, a), 0);
        }
        guard_read(g, on_broken);
        eq_int(near.told, 1);
        eq_int(far.told, 1);
        eq_int(placeholder.told, 1);
        eq_int(placeholder.told_of_placeholder, 0); /* the events are lost */
        guard_read(g, on_broken);
        eq_int(far.told, 1);
        let_go(g, &near);
        let_go(g, &far);
        let_go(g, &placeholder);
        (void)guard_free(g);
}

/* ---- making and releasing holds ---- */

TEST(where_nothing_is_guarded_nothing_is_held)
{
        struct guard *g = guard_get();
        struct err err = ERR_INIT;
        struct plan_op op = { .kind = PLAN_WRITE, .path = S("/tmp") };
        const struct plan plan = { .ops = &op, .op_count = 1 };
        struct guard_hold *h;
        eq_int(guard_hold(g, &plan, NULL, &h, &err), 0);
        ok(h == NULL);
        eq_u64(watches(g), 0);
        ok(guard_let_go(g, NULL) == NULL);
        (void)guard_free(g);
        ok(guard_free(NULL) == NULL);
}

TEST(who_has_no_owner_yet_is_not_told)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        put_directory(&rig, "no");
        mask(&h, &rig, "no", false);
        hold(g, &h);
        guard_set_owner(g, h.hold, NULL);
        eq_int(rmdir(at(&rig, "no")), 0);
        ok(!is_told(g, &h));
        let_go(g, &h);
        (void)guard_free(g);
}

TEST(only_those_who_still_hold_are_told)
{
        enum { MANY = 300 };
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held *all = mem_zalloc(MANY * sizeof(*all));
        put_directory(&rig, "w");
        put_directory(&rig, "w/one");
        put_directory(&rig, "w/two");
        for (int n = 0; n < MANY; n++) {
                mask(&all[n], &rig, n % 2 ? "w/one" : "w/two", false);
                hold(g, &all[n]);
        }
        for (int n = 0; n < MANY; n += 3)
                let_go(g, &all[n]);
        ok(watches(g) > 0);
        move_to(&rig, "w/one", "x");
        guard_read(g, on_broken);
        for (int n = 0; n < MANY; n++)
                eq_int(all[n].told, n % 2 && n % 3);
        move_to(&rig, "w", "y");
        guard_read(g, on_broken);
        for (int n = 0; n < MANY; n++)
                eq_int(all[n].told, n % 3 ? 1 + n % 2 : 0);
        for (int n = 0; n < MANY; n++)
                if (all[n].hold)
                        let_go(g, &all[n]);
        eq_u64(watches(g), 0);
        (void)guard_free(g);
        free(all);
}

TEST(what_happened_before_letting_go_is_told_to_nobody)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held old = { 0 }, young = { 0 };
        put_directory(&rig, "no");
        mask(&old, &rig, "no", false);
        hold(g, &old);
        eq_int(rmdir(at(&rig, "no")), 0);
        let_go(g, &old);
        put_directory(&rig, "no");
        mask(&young, &rig, "no", false);
        hold(g, &young);
        guard_read(g, on_broken);
        eq_int(old.told, 0);
        eq_int(rmdir(at(&rig, "no")), 0);
        ok(is_told(g, &young));
        let_go(g, &young);
        (void)guard_free(g);
}

/* Two holds that one event concerns, and whose callbacks each release both. */
static struct guard *pair_guard;
static struct held pair[2];

static void on_broken_end_both(void *owner, enum guard_event event)
{
        on_broken(owner, event);
        for (size_t n = 0; n < ARRAY_LEN(pair); n++)
                if (pair[n].hold)
                        let_go(pair_guard, &pair[n]);
}

TEST(who_is_told_may_let_go_of_itself_and_of_others)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        pair_guard = guard_get();
        put_directory(&rig, "no");
        for (size_t n = 0; n < ARRAY_LEN(pair); n++) {
                pair[n] = (struct held){ 0 };
                mask(&pair[n], &rig, "no", false);
                hold(pair_guard, &pair[n]);
        }
        eq_int(rmdir(at(&rig, "no")), 0);
        guard_read(pair_guard, on_broken_end_both);
        eq_int(pair[0].told + pair[1].told, 1); /* the other hold was released by then */
        eq_u64(watches(pair_guard), 0);
        (void)guard_free(pair_guard);
}

TEST(a_mask_below_what_does_not_exist_cannot_be_held)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct held h = { 0 };
        struct err err = ERR_INIT;
        put_directory(&rig, "no");
        mask(&h, &rig, "no", false);
        mask(&h, &rig, "none/.git", true);
        eq_int(guard_hold(g, &h.plan, NULL, &h.hold, &err), -ENOENT);
        ok(h.hold == NULL);
        eq_str(err.step, "guard");
        eq_int(err.os_errno, ENOENT);
        eq_str(err.text, "masks cannot be guarded: No such file or directory (os error 2)");
        eq_u64(watches(g), 0);
        (void)guard_free(g);
}

/* ---- threads ---- */

struct holder {
        struct guard *guard;
        struct held held;
};

static void *hold_often(void *arg)
{
        struct holder *x = arg;
        for (int n = 0; n < 200; n++) {
                struct err err = ERR_INIT;
                if (guard_hold(x->guard, &x->held.plan, x->held.image, &x->held.hold, &err) < 0)
                        return (void *)1;
                guard_set_owner(x->guard, x->held.hold, x);
                x->held.hold = guard_let_go(x->guard, x->held.hold);
        }
        return NULL;
}

static void on_broken_ignore(UNUSED void *owner, UNUSED enum guard_event event)
{
}

TEST(threads_hold_and_let_go_while_events_are_read)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct guard *g = guard_get();
        struct holder holders[4];
        pthread_t threads[ARRAY_LEN(holders)];
        struct held witness = { 0 };
        put_directory(&rig, "w");
        put_directory(&rig, "w/no");
        put_directory(&rig, "w/other");
        mask(&witness, &rig, "w/no", false);
        for (size_t n = 0; n < ARRAY_LEN(holders); n++) {
                holders[n] = (struct holder){ .guard = g };
                mask(&holders[n].held, &rig, n % 2 ? "w/no" : "w/other", false);
        }
        hold(g, &witness);
        for (size_t n = 0; n < ARRAY_LEN(holders); n++)
                eq_int(pthread_create(&threads[n], NULL, hold_often, &holders[n]), 0);
        for (int n = 0; n < 200; n++) {
                (void)renameat2(AT_FDCWD, at(&rig, "w/other"), AT_FDCWD, at(&rig, "w/x"), 0);
                guard_read(g, on_broken_ignore);
                (void)renameat2(AT_FDCWD, at(&rig, "w/x"), AT_FDCWD, at(&rig, "w/other"), 0);
        }
        for (size_t n = 0; n < ARRAY_LEN(holders); n++) {
                void *result;
                eq_int(pthread_join(threads[n], &result), 0);
                ok(result == NULL);
        }
        guard_read(g, on_broken_ignore);
        /* The other holds that came and went have not removed the watch of this one. */
        move_to(&rig, "w/no", "gone");
        ok(is_told(g, &witness));
        let_go(g, &witness);
        eq_u64(watches(g), 0);
        (void)guard_free(g);
}

/* ---- checking masks without events ---- */

TEST(masks_are_intact_while_they_lie_on_what_they_were_put_on)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct held h = { 0 };
        put_directory(&rig, "w");
        put_directory(&rig, "w/no");
        put_file(&rig, "w/f");
        mask(&h, &rig, "w/no", false);
        mask(&h, &rig, "w/f", false);
        h.ops[2] = (struct plan_op){ .kind = PLAN_WRITE, .path = S("/none"), .ino = 1 };
        h.ops[3] = (struct plan_op){
                .kind = PLAN_HIDE, .is_guarded = true, .may_be_missing = true, .path = S("/none")
        };
        h.plan.op_count = 4;
        struct image *i = image_of(&h.plan);
        ok(guard_is_intact(i, false));
        move_to(&rig, "w", "x");
        ok(!guard_is_intact(i, false));
        put_directory(&rig, "w");
        put_directory(&rig, "w/no");
        put_file(&rig, "w/f");
        ok(!guard_is_intact(i, false)); /* now other files have the names */
        move_to(&rig, "w", "y");
        move_to(&rig, "x", "w");
        ok(guard_is_intact(i, false));
        eq_int(unlink(at(&rig, "w/f")), 0);
        ok(!guard_is_intact(i, false));
        image_unmap(i);
}
