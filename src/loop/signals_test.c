/* signals_test: signals as events of the loop. */
#include "loop/loop_rig.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct heard {
        struct rig *rig;
        struct signals *signals;
        int counts[NSIG];
        int total;
};

static void on_signal(void *arg, int signo)
{
        struct heard *h = arg;
        h->counts[signo]++;
        h->total++;
        loop_stop(&h->rig->loop);
}

static const int both[] = { SIGUSR1, SIGCHLD, 0 };

TEST(a_signal_wakes_the_loop)
{
        struct rig rig;
        struct heard h = { .rig = &rig };
        rig_open(&rig);
        eq_int(signals_new(&rig.loop, both, on_signal, &h, &h.signals), 0);

        turn(&rig);
        eq_int(h.total, 0);
        eq_int(kill(getpid(), SIGUSR1), 0);
        loop_run(&rig.loop);
        eq_int(h.counts[SIGUSR1], 1);
        eq_int(h.total, 1);

        h.signals = signals_free(h.signals);
        ok(signals_free(NULL) == NULL);
        rig_close(&rig);
}

TEST(the_end_of_a_child_is_told_also_when_it_was_ignored_before)
{
        struct rig rig;
        struct heard h = { .rig = &rig };
        rig_open(&rig);
        ok(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
        eq_int(signals_new(&rig.loop, both, on_signal, &h, &h.signals), 0);

        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        loop_run(&rig.loop);
        eq_int(h.counts[SIGCHLD], 1);
        eq_int(waitpid(pid, NULL, 0), pid);

        h.signals = signals_free(h.signals);
        rig_close(&rig);
}

/* A SIGUSR1 that is delivered later would end this program. */
TEST(a_signal_that_came_too_late_has_no_effect_and_later_ones_have_theirs_again)
{
        struct rig rig;
        struct heard h = { .rig = &rig };
        sigset_t mask;
        rig_open(&rig);
        eq_int(signals_new(&rig.loop, both, on_signal, &h, &h.signals), 0);

        eq_int(kill(getpid(), SIGUSR1), 0);
        h.signals = signals_free(h.signals);
        turn(&rig);
        eq_int(h.total, 0);
        eq_int(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
        eq_int(sigismember(&mask, SIGUSR1), 0);
        rig_close(&rig);
}
