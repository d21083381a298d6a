/* task_retention_test: tests which output is dropped first, with tasks that have no process behind them. */
#include "base/mem.h"
#include "session/task_internal.h"
#include "unit.h"

#define TOTAL 10 /* how many chunks of one byte fit, together with the retained beginnings of their streams */
#define HEADS sizeof(struct chunk)

struct rig {
        struct config config;
        struct server server;
        struct client client;
        struct session attached, detached;
};

static void rig_open(struct rig *rig)
{
        *rig = (struct rig){ .config.retained_output_bytes_total =
                                     TOTAL * (1 + sizeof(struct chunk)) + HEADS };
        rig->server.config = &rig->config;
        for (size_t i = 0; i < ARRAY_LEN(rig->server.retained); i++)
                list_init(&rig->server.retained[i]);
        rig->attached = (struct session){ .server = &rig->server, .client = &rig->client };
        rig->detached = (struct session){ .server = &rig->server };
}

static struct task *make(struct rig *rig, struct session *session, enum process_state state)
{
        struct task *t = mem_new(struct task);
        t->session = session;
        list_init(&t->retained_link);
        t->process = mem_new(struct process);
        t->process->state = state;
        output_init(&t->process->output, 1000, &rig->server.procs.retained_total);
        return t;
}

static void end(struct task *t)
{
        list_remove(&t->retained_link);
        output_release(&t->process->output);
        free(t->process);
        free(t);
}

/* Appends `n` chunks of one byte each. */
static void grow(struct task *t, size_t n)
{
        while (n-- > 0) {
                output_append(&t->process->output, STREAM_STDOUT, ++t->process->next_seq, S("x"));
                task_retention_grew(t);
        }
}

/* Appends one chunk of `bytes` bytes. */
static void grow_by(struct task *t, size_t bytes)
{
        static const char zeros[1000];
        output_append(&t->process->output, STREAM_STDOUT, ++t->process->next_seq, slice_from(zeros, bytes));
        task_retention_grew(t);
}

static size_t kept(const struct task *t)
{
        return t->process->output.count;
}

TEST(nothing_goes_up_to_the_total)
{
        struct rig rig;
        rig_open(&rig);
        struct task *a = make(&rig, &rig.attached, PROC_RUNNING);
        struct task *b = make(&rig, &rig.detached, PROC_CLOSED);
        grow(a, 4);
        grow(b, 6);
        eq_u64(kept(a), 4);
        eq_u64(kept(b), 6);
        end(a);
        end(b);
        eq_u64(rig.server.procs.retained_total, 0);
}

TEST(closed_goes_before_detached_and_detached_before_attached)
{
        struct rig rig;
        rig_open(&rig);
        struct task *attached = make(&rig, &rig.attached, PROC_RUNNING);
        struct task *detached = make(&rig, &rig.detached, PROC_EXITED);
        struct task *closed = make(&rig, &rig.attached, PROC_CLOSED);
        struct task *growing = make(&rig, &rig.attached, PROC_RUNNING);
        grow(attached, 3);
        grow(detached, 3);
        grow(closed, 3);

        grow(growing, 3);
        eq_u64(kept(closed), 1);
        eq_u64(kept(detached), 3);
        grow(growing, 2);
        eq_u64(kept(closed), 0);
        eq_u64(kept(detached), 2);
        grow(growing, 2);
        eq_u64(kept(detached), 0);
        eq_u64(kept(attached), 3);
        grow(growing, 3);
        eq_u64(kept(attached), 0);
        eq_u64(kept(growing), 10);
        grow(growing, 5); /* no other task has output: its own oldest chunks go */
        eq_u64(kept(growing), TOTAL);
        eq_u64(growing->process->output.dropped_seq, 5);
        end(attached);
        end(detached);
        end(closed);
        end(growing);
}

TEST(within_a_class_the_longest_there_goes_first)
{
        struct rig rig;
        rig_open(&rig);
        struct task *first = make(&rig, &rig.attached, PROC_RUNNING);
        struct task *second = make(&rig, &rig.attached, PROC_RUNNING);
        grow(second, 5);
        grow(first, 5);
        grow(first, 2);
        eq_u64(kept(second), 3);
        eq_u64(kept(first), 7);
        end(first);
        end(second);
}

TEST(a_task_that_changes_its_class_waits_behind_those_in_it)
{
        struct rig rig;
        rig_open(&rig);
        struct task *early = make(&rig, &rig.attached, PROC_RUNNING);
        struct task *closed = make(&rig, &rig.attached, PROC_CLOSED);
        struct task *growing = make(&rig, &rig.attached, PROC_RUNNING);
        grow(early, 4);
        grow(closed, 4);
        early->process->state = PROC_CLOSED;
        task_reclass(early);

        grow(growing, 6);
        eq_u64(kept(closed), 0);
        eq_u64(kept(early), 4);
        grow(growing, 3);
        eq_u64(kept(early), 1);
        end(early);
        end(closed);
        end(growing);
}

TEST(a_task_without_output_has_no_class_until_it_grows)
{
        struct rig rig;
        rig_open(&rig);
        struct task *a = make(&rig, &rig.detached, PROC_RUNNING);
        struct task *b = make(&rig, &rig.attached, PROC_RUNNING);
        task_reclass(a); /* does nothing, because the task has no output */
        ok(!list_is_linked(&a->retained_link));
        grow(a, 2);
        list_remove(&a->retained_link);

        grow(b, 12); /* a task that is not in the list keeps its output */
        eq_u64(kept(a), 2);
        eq_u64(kept(b), 8);
        grow(a, 1); /* puts the task into the list again: it is detached, so its own output goes */
        eq_u64(kept(a), 2);
        eq_u64(kept(b), 8);
        end(a);
        end(b);
        eq_u64(rig.server.procs.retained_total, 0);
}

TEST(beginnings_count_and_go_when_their_task_has_nothing_else)
{
        struct rig rig;
        rig_open(&rig);
        rig.config.retained_output_bytes_total = 1000;
        uint64_t *total = &rig.server.procs.retained_total;
        struct task *old = make(&rig, &rig.attached, PROC_CLOSED);
        struct task *young = make(&rig, &rig.attached, PROC_RUNNING);
        const struct output_stream *head = &old->process->output.streams[STREAM_STDOUT];
        const struct output_stream *own = &young->process->output.streams[STREAM_STDOUT];
        grow_by(old, 300);
        eq_u64(*total, sizeof(struct chunk) + 300 + 300);

        grow_by(young, 250); /* too much together: the chunk of `old` goes, its beginning stays */
        eq_u64(kept(old), 0);
        eq_u64(head->head_len, 300);
        eq_u64(*total, sizeof(struct chunk) + 250 + 250 + 300);
        grow_by(young, 100); /* now the beginning of `old` goes, because `young` still runs */
        eq_u64(head->head_len, 0);
        eq_u64(head->bytes, 300);
        eq_u64(kept(young), 2);
        eq_u64(own->head_len, 350);
        eq_u64(*total, 2 * sizeof(struct chunk) + 350 + 350);
        ok(!list_is_linked(&old->retained_link) || *total <= 1000);

        grow_by(young, 150); /* no other task has output: its own oldest chunk goes first */
        eq_u64(kept(young), 2);
        eq_u64(own->head_len, 500);
        eq_u64(young->process->output.dropped_seq, 1);
        end(old);
        end(young);
        eq_u64(*total, 0);
}
