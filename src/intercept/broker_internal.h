/* broker_internal: the state of a broker and of the starts that it has not finished with. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "intercept/broker.h"
#include "intercept/escalate.h"
#include "intercept/message.h"
#include "intercept/remembered.h"
#include "intercept/watch_exec.h"

#include <poll.h>
#include <stdatomic.h>

enum request_state {
        REQUEST_READ,    /* a wrapper is asking: not all of its request has come */
        REQUEST_GIVEN,   /* a wrapper is to hand over descriptors: not all of them have come */
        REQUEST_ASKED,   /* the client is to decide */
        REQUEST_TOLD,    /* the decision waits until the server's socket has taken its report */
        REQUEST_OUTSIDE, /* the program runs outside of the sandbox */
        REQUEST_ENDING,  /* the program runs outside of the sandbox, but its caller has died */
        REQUEST_WATCHED, /* the caller goes on, and its execve is followed */
        REQUEST_OVER,    /* the request is removed at the end of the turn */
};

/* A start that is not finished with. */
struct request {
        struct list link; /* broker::requests */
        enum request_state state;
        struct caller caller;
        int pidfd; /* of the caller's process; -1 when it is not needed */
        uint32_t question;
        enum intercept_action action; /* REQUEST_TOLD: what was decided */
        char *reason;                 /* REQUEST_TOLD: the reason of a denial, on the heap; NULL: none */
        size_t held;                  /* how much of broker::open_bytes is for this request */
        struct escalated outside;
        uint64_t passed_on;   /* signals that were passed on to the program outside */
        uint64_t deadline_us; /* REQUEST_ENDING: when the program outside is killed */
        uint64_t begun_us;    /* REQUEST_WATCHED, REQUEST_READ, REQUEST_GIVEN: since when */
        struct watch_exec watch;
        int failure; /* REQUEST_GIVEN: the -errno with which the request ends; 0: the program is to run outside */
        size_t poll_at; /* where its descriptors stand in the list for poll */
};

struct broker {
        struct broker_start start;
        struct intercept_options options;
        struct exec_rules *rules;
        struct arena arena; /* of one decision */
        bool has_shell;     /* scope INTERCEPT_SHELL: which file the command's first program is */
        dev_t shell_dev;
        ino_t shell_ino;
        bool is_over; /* no process has the filter any more */

        struct list requests;
        struct request *unused; /* an empty request for the next notification; NULL: none */
        size_t questions, open_bytes, outside, watched;
        /* How many wrappers have a stream, and how much was read from them and not used yet. */
        size_t streams, stream_bytes, stream_fds;
        uint32_t last_question;
        struct remembered remembered;

        bool is_lost; /* there is no server any more */
        struct buf in, out;

        struct pollfd *polled;
        size_t polled_room;
        uint64_t looked_us; /* when the callers of programs outside were looked at */
};

/* ---- broker.c ---- */
/* Returns whether another start may be looked at: whether there is room for its report on the way to the server. */
NODISCARD bool broker_may_take(const struct broker *b);
NORETURN void broker_die(const char *what, int os_errno);
/* Adds one to a counter of the keeper, which the server reports with the exit of the command. */
static inline void broker_count(_Atomic uint64_t *counter)
{
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- broker_notice.c: a process wants to start a program ---- */
void broker_take(struct broker *b);
/* Decides about a request whose caller was read. */
void broker_decide(struct broker *b, struct request *r);

/* ---- broker_request.c: what becomes of a request ---- */
NODISCARD struct request *request_new(void);
struct request *request_free(struct request *r); /* returns NULL */
NODISCARD struct intercept_exec request_exec(const struct request *r);

/* The next three carry a decision out. Each ends the request, or lets it wait for something else. `must_watch`: time has passed since
 * the caller was read, and its memory can have changed. */
void request_run(struct broker *b, struct request *r, bool must_watch);
void request_deny(struct broker *b, struct request *r, struct slice reason); /* p == NULL: none */
void request_escalate(struct broker *b, struct request *r);
/* Ends the request with an error of execve (-errno). */
void request_fail(struct broker *b, struct request *r, int error);
/* Called when a wrapper has handed over its descriptors, after request_escalate or request_fail. */
void request_given(struct broker *b, struct request *r);
/* Called when a wrapper has gone, or has broken the protocol. */
void request_lose(struct broker *b, struct request *r);
/* Reports a decision about which nobody was asked, if the client wants reports, and carries it out. The report is in the server's socket
 * before the decision takes effect: so the server has all reports when it hears of the exit of a process. */
void request_decided(struct broker *b, struct request *r, enum intercept_action action,
                     const struct exec_rule *rule, struct slice reason);
/* Called when nothing waits to be sent: carries out what was decided before. */
void requests_told(struct broker *b);
/* Asks the server about a start. Denies it when nobody can be asked. */
void request_ask(struct broker *b, struct request *r, const struct intercept_verdict *verdict);
void request_answer(struct broker *b, const struct intercept_answer *answer);
/* Lets the request wait for something else. It is no question any more, and holds no memory of questions. */
void request_wait(struct broker *b, struct request *r, enum request_state state);
/* Ends the request. The end of the turn frees it. */
void request_end(struct broker *b, struct request *r);
/* Opens the pidfd of the caller's process, unless it is open already. Returns 0 or -errno. */
NODISCARD int request_open(struct request *r);
/* Tells a wrapper that its program is to run outside. The wrapper then hands over its descriptors. */
void request_want_descriptors(struct request *r);
/* Called when there is no server any more. */
void requests_deny_asked(struct broker *b);
/* Called with what poll has returned for the descriptors of the request. */
void request_step(struct broker *b, struct request *r, const struct pollfd *caller,
                  const struct pollfd *report, const struct pollfd *outside);
/* Looks whether the callers still wait, and passes their signals on. */
void requests_look(struct broker *b);

/* ---- broker_outside.c: programs outside of the sandbox, with request_escalate and request_given ---- */
/* Called when the program has ended: ends its caller in the same way. */
void outside_ended(struct broker *b, struct request *r);
/* Called when execve of the program is over: when it has failed the execve of the caller fails, too. */
void outside_reported(struct broker *b, struct request *r);
/* Called when the caller has died: its program gets the signal of which the caller has died, and is killed when it stays. */
void outside_lose_caller(struct request *r);
/* Passes on the signals that the caller has got, because they do not reach the caller before its execve has ended. */
void outside_pass_signals_on(struct request *r);

/* ---- broker_wrapped.c: a wrapper asks ---- */
NODISCARD bool streams_may_begin(const struct broker *b);
void streams_take(struct broker *b);
/* Finds out which process asks, unless that is known. Its pidfd is opened before anything of the process is read, and stands for it from then
 * on. Returns 0 or -errno. */
NODISCARD int stream_find(struct request *r);
/* Called when there is something to read on the stream of a request. */
void stream_step(struct broker *b, struct request *r);
/* Called several times a second: gives up on a wrapper that has sent nothing for too long. */
void stream_look(struct broker *b, struct request *r);
void stream_end(struct broker *b, struct request *r);

/* ---- broker_server.c: the socket ---- */
void server_read(struct broker *b);
void server_write(struct broker *b);
/* Queues a report, if the client wants one. */
void server_tell(struct broker *b, struct request *r, enum intercept_action action,
                 const struct exec_rule *rule);
/* Appends a message to the queue. Returns 0 or -errno; nothing was appended then. */
int server_queue(struct broker *b, const struct intercept_message *m);
NODISCARD struct intercept_question server_question(const struct request *r, enum intercept_action action,
                                                    const struct exec_rule *rule);
