/* loop_internal: what the files of the loop share: turns (loop.c), descriptors (watch.c), timers (timer.c). */
#pragma once

#include "loop/loop.h"

/* Sleeps until a descriptor is ready, at most `timeout_ms` (-1: for ever), and calls the owners of the descriptors that are. */
void watches_wait(struct loop *l, int timeout_ms);
void watches_free_freed(struct loop *l); /* to be called when no fetched event is left */

int timers_wait_ms(const struct loop *l); /* the time to the next timer; -1 when none runs */
void timers_run(struct loop *l);          /* calls the timers that are due */
void timers_release(struct loop *l);
