/* backend_test: the back ends are tried in their order, and the refusal names each that failed. */
#include "unit.h"

#include "sandbox/backend.h"
#include "sandbox/landlock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Valgrind does not know many system calls of a sandbox, and some containers allow no namespaces. */
static bool has_namespaces(void)
{
        if (unit_is_valgrind())
                return false;
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) == 0 ? 0 : 1);
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        if (status != 0)
                print_message("skipped: no namespaces here\n");
        return status == 0;
}

TEST(every_name_is_parsed_and_auto_names_no_back_end)
{
        enum backend found;
        for (enum backend b = 0; b < BACKEND_NONE; b++) {
                eq_int(backend_parse(slice_from_str(backend_name(b)), &found), 0);
                eq_int(found, b);
        }
        eq_int(backend_parse(S("auto"), &found), 0);
        eq_int(found, BACKEND_AUTO);
        eq_str(backend_name(BACKEND_NONE), "none");
}

TEST(other_words_are_no_back_end)
{
        static const char *const words[] = { "", "none", "bwrap", "Landlock", "auto ", "namespace" };
        enum backend found = BACKEND_LANDLOCK;
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
                eq_int(backend_parse(slice_from_str(words[i]), &found), -EINVAL);
        eq_int(found, BACKEND_LANDLOCK);
}

TEST(the_first_that_works_is_chosen_and_the_rest_is_not_tried)
{
        struct backends b;
        if (!has_namespaces())
                return;
        backends_test(BACKEND_AUTO, false, &b);
        eq_int(b.chosen, BACKEND_NAMESPACES);
        ok(b.tests[BACKEND_NAMESPACES].was_tried && b.tests[BACKEND_NAMESPACES].os_errno == 0);
        ok(!b.tests[BACKEND_BUBBLEWRAP].was_tried && !b.tests[BACKEND_LANDLOCK].was_tried);
}

TEST(all_are_tried_when_a_report_is_wanted)
{
        struct backends b;
        backends_test(BACKEND_AUTO, true, &b);
        for (enum backend i = 0; i < BACKEND_NONE; i++) {
                ok(b.tests[i].was_tried);
                ok(b.tests[i].os_errno == 0 || b.tests[i].step);
        }
}

/* The child of an attempt must send no SIGCHLD: a server that gets this signal would reap the child. */
TEST(an_attempt_leaves_no_child_behind)
{
        struct backends b;
        backends_test(BACKEND_NAMESPACES, false, &b);
        eq_int(waitpid(-1, NULL, __WALL | WNOHANG), -1);
        eq_int(errno, ECHILD);
}

TEST(where_nothing_works_step_errno_and_remedy_are_those_of_the_first)
{
        struct backends b = { .wish = BACKEND_AUTO, .chosen = BACKEND_NONE };
        b.tests[BACKEND_NAMESPACES] = (struct backend_test){
                .was_tried = true, .os_errno = ENOSPC, .step = "namespaces", .remedy = "more"
        };
        b.tests[BACKEND_LANDLOCK] =
                (struct backend_test){ .was_tried = true, .os_errno = ENOSYS, .step = "landlock" };
        struct err err = ERR_INIT;
        eq_int(backends_refuse(&b, &err), -ENOSPC);
        eq_str(err.step, "namespaces");
        eq_int(err.os_errno, ENOSPC);
        eq_str(err.remedy, "more");
        eq_str(err.text, "sandbox intent cannot be enforced on this executor: namespaces: No space left on "
                         "device (os error "
                         "28); landlock: Function not implemented (os error 38)");
}

TEST(landlock_works_from_abi_6_on_and_says_why_not)
{
        struct backends b;
        backends_test(BACKEND_LANDLOCK, false, &b);
        const struct backend_test *t = &b.tests[BACKEND_LANDLOCK];
        ok(t->was_tried && !b.tests[BACKEND_NAMESPACES].was_tried);
        if (b.landlock_abi >= LANDLOCK_ALONE_ABI) {
                eq_int(t->os_errno, 0);
                eq_int(b.chosen, BACKEND_LANDLOCK);
        } else {
                ok(t->os_errno != 0 && t->remedy);
                eq_str(t->step, "landlock");
                eq_int(b.chosen, BACKEND_NONE);
        }
}
