/* spawn_deaths: counts spawners that cannot run here, because a system call that they need is refused, and explains it to clients.
 *
 * Such a spawner ends by itself soon after its start, and the next one would, too. A spawner that was killed, or that ran for a
 * while, tells nothing about its successor and is not counted.
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

struct spawn_deaths {
        unsigned count; /* spawners in a row that could not run */
        pid_t pid;      /* the last spawner that was lost, until its exit status is known; 0: it is known */
        uint64_t lived_ms;  /* how long that spawner ran */
        const char *call;   /* the system call that was refused, or NULL */
        int os_errno;       /* the error of that call */
        int signo;          /* the signal that ended the last spawner; 0: none */
        bool is_unable;     /* the spawner has reported `call`, and is about to be lost */
        bool is_reason_due; /* the spawner has ended, and its report of `call` has not come yet */
        bool is_logged;     /* the reason was logged */
};

/* To be called when a spawner reports that it was refused a system call, before or after the two functions below. `call` is a
 * literal. */
void spawn_deaths_unable(struct spawn_deaths *d, const char *call, int os_errno);
/* To be called when a spawner is dead, or its socket was closed. `lived_ms`: how long it ran. */
void spawn_deaths_lost(struct spawn_deaths *d, pid_t pid, uint64_t lived_ms);
/* To be called after spawn_deaths_lost, with the exit status of the spawner as wait gives it. */
void spawn_deaths_ended(struct spawn_deaths *d, int status);

/* Fills in why no command can be started, with step and remedy; rpc is 0. Returns false when no reason is known. */
bool spawn_deaths_explain(const struct spawn_deaths *d, struct err *err);
/* Returns how long to wait before the next spawner is started. */
uint64_t spawn_deaths_wait_ms(const struct spawn_deaths *d);
