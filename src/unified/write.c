/* write: the tool write_stdin: writes to a session, interrupts it, or polls it. */
#include "unified/table_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>

#define PREFIX "write_stdin failed: "
#define INTERRUPT S("\x03")

/* Returns whether no call that came earlier waits for the same session. */
static bool is_next(const struct unified_call *c)
{
        struct unified_call *other;
        list_each (other, &c->table->calls, link) {
                if (other == c)
                        return true;
                if (other->tool == UNIFIED_WRITE_STDIN && other->state == CALL_QUEUED &&
                    other->write.session_id == c->write.session_id)
                        return false;
        }
        return true;
}

/* Gives the input to the session. What the process does not take now is given to it later. */
static void give_input(struct unified_call *c)
{
        struct exec_session *s = c->session;
        if (buf_append(&s->input, c->write.chars) < 0)
                c->has_write_failed = true;
        else
                exec_session_feed(s);
}

/* Does what the call asks for, now that no other call uses the session. */
static void begin(struct unified_call *c, uint64_t now_ms)
{
        struct exec_session *s = c->session;
        struct slice chars = c->write.chars;
        if (!s->tty && chars.n > 0 && !slice_eq(chars, INTERRUPT)) {
                unified_call_fail(c, PREFIX
                                  "stdin is closed for this session; rerun exec_command with tty=true to "
                                  "keep stdin open");
                return;
        }
        if (chars.n > 0 && s->process && !s->has_exited && s->tty)
                give_input(c);
        else if (chars.n > 0 && s->process && !s->has_exited)
                (void)farhand_process_signal(
                        s->process,
                        SIGINT); /* this fails for a process that has just ended; its exit is reported then */
        if (chars.n > 0)
                exec_session_tell_interaction(s, chars);
        bool has_pause = chars.n > 0 && s->tty;
        unified_call_wait(c, CALL_PAUSING, has_pause ? wait_end_ms(now_ms, INPUT_PAUSE_MS) : now_ms);
}

static bool on_queued(struct unified_call *c, uint64_t now_ms)
{
        struct exec_session *s = exec_session_find(c->table, c->write.session_id);
        if (!s || !s->has_started) {
                unified_call_fail(c, PREFIX "Unknown process id %lld", (long long)c->write.session_id);
                return true;
        }
        if (s->user || !is_next(c))
                return false;
        exec_session_lock(s, c);
        begin(c, now_ms);
        return true;
}

/* Returns whether a process that lives has not taken the input. */
static bool has_failed_to_write(const struct unified_call *c)
{
        const struct exec_session *s = c->session;
        if (!s->tty || c->write.chars.n == 0 || s->has_exited || s->has_failed || s->is_closed)
                return false;
        return c->has_write_failed || !s->process || farhand_process_write(s->process, "", 0, NULL) == -EPIPE;
}

static bool on_pausing(struct unified_call *c, uint64_t now_ms)
{
        if (now_ms < c->wake_ms && !exec_session_is_over(c->session, now_ms))
                return false;
        if (has_failed_to_write(c)) {
                unified_call_fail(c, PREFIX "failed to write to stdin");
                return true;
        }
        c->window_end_ms = wait_end_ms(now_ms, c->write.yield_ms);
        unified_call_wait(c, CALL_COLLECTING, c->window_end_ms);
        return true;
}

static bool on_collecting(struct unified_call *c, uint64_t now_ms)
{
        struct exec_session *s = c->session;
        bool is_over = exec_session_is_over(s, now_ms);
        if (is_over || (now_ms >= c->window_end_ms && !s->has_exited)) {
                if (c->write.chars.n == 0 && !is_over)
                        exec_session_tell_interaction(s, S(""));
                unified_call_answer(c, PREFIX);
                return true;
        }
        unified_call_wait(c, CALL_COLLECTING,
                          s->has_exited ? s->exited_ms + AFTER_EXIT_MS : c->window_end_ms);
        return false;
}

int write_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                 struct err *err)
{
        return args_decode_write(&c->strings, d, arguments, c->table->options.poll_most_ms, &c->write, err);
}

bool write_advance(struct unified_call *c, uint64_t now_ms)
{
        switch (c->state) {
        case CALL_NEW:
                unified_call_wait(c, CALL_QUEUED, UINT64_MAX);
                return true;
        case CALL_QUEUED:
                return on_queued(c, now_ms);
        case CALL_PAUSING:
                return on_pausing(c, now_ms);
        case CALL_COLLECTING:
                return on_collecting(c, now_ms);
        case CALL_CONNECTING:
        case CALL_ASKING:
        case CALL_STARTING:
        case CALL_REPORTING:
        case CALL_PATCHING:
        case CALL_LOOKING:
        case CALL_FILING:
        case CALL_DONE:
                break;
        }
        return false;
}
