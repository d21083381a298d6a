/* keeper_shared: functions on the memory of a keeper, for the spawner, the keeper and the processes of its sandbox. Raw system
 * calls only. */
#include "keeper/keeper_shared.h"

#include "base/sys.h"

#include <errno.h>
#include <linux/futex.h>

#define HANDOVER_WAIT_NS 20000
#define HANDOVER_YIELDS 50

/* Makes three lists of pointers into `bytes`. The counts are checked, although the server is trusted: a bug there must do no harm
 * here. */
int keeper_order_unpack(struct keeper_order *o, const struct command_head *head, char *bytes, char **pointers)
{
        const uint32_t counts[] = { head->argc, head->envc, head->candidatec };
        char *const *lists[ARRAY_LEN(counts)];
        char *end = bytes + head->bytes;
        if (head->bytes == 0 || end[-1] != 0 || head->argc == 0)
                return -EBADMSG;

        o->cwd = bytes;
        bytes += strlen(bytes) + 1;
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
                lists[i] = pointers;
                for (uint32_t k = 0; k < counts[i]; k++) {
                        if (bytes >= end)
                                return -EBADMSG;
                        *pointers++ = bytes;
                        bytes += strlen(bytes) + 1;
                }
                *pointers++ = NULL;
        }
        o->is_tty = head->is_tty;
        o->limits = head->limits;
        o->argv = lists[0];
        o->env = lists[1];
        o->candidates = lists[2];
        return bytes == end ? 0 : -EBADMSG;
}

/* Normally the handover is long over. A process with a real-time priority yields only to processes of the same priority, so after
 * some turns it sleeps. */
NO_ASAN void keeper_await_handover(const struct keeper *k, pid_t parent)
{
        const struct timespec moment = { .tv_nsec = HANDOVER_WAIT_NS };
        for (int n = 0;
             !atomic_load_explicit(&k->is_handed_over, memory_order_acquire) && sys_getppid() == parent; n++)
                (void)(n < HANDOVER_YIELDS ? sys_call0(SYS_sched_yield)
                                           : sys_call2(SYS_nanosleep, &moment, NULL));
}

NO_ASAN void keeper_await_inlets(const struct keeper *k)
{
        while (!__atomic_load_n(&k->inlets_made, __ATOMIC_ACQUIRE))
                (void)sys_call4(SYS_futex, &k->inlets_made, FUTEX_WAIT, 0, NULL);
}
