/* selftest: finds out after the start which back end can enforce sandboxes on this machine, and logs the result.
 *
 * The self-test runs on the pool and forks the server. It begins a moment after the start, so that the first clients do not wait
 * for it. A request that needs the result earlier begins the self-test at once and waits: a sandboxed command waits on its thread
 * (preparer_backends), environment/info as a parked request.
 */
#pragma once

#include "base/err.h"

struct server;
struct req;

struct selftest;

/* Starts the timer after which the self-test begins. The server must have its pool and its loop. */
struct selftest *selftest_new(struct server *server);
struct selftest *selftest_free(struct selftest *t); /* must not be running; NULL is fine; returns NULL */
/* Parks environment/info, and answers it when the self-test has finished. Returns 1 when too many requests wait: then the caller
 * must answer. */
NODISCARD int selftest_await(struct selftest *t, struct req *req, struct err *err);
