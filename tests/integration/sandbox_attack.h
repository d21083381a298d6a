/* sandbox_attack: what a hostile command tries from inside a sandbox. Built and run by sandbox_arena.py.
 *
 * Every attempt runs in a child of its own and says one word of how it went; the test looks from outside as well.
 * An attempt never harms the machine when it gets through: it opens host settings and does not write them, signals
 * only the victim it was given, and calls what is dangerous with arguments that the kernel refuses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum verdict {
        HELD,  /* refused, in the way that was promised */
        BROKE, /* the attack has worked */
        WEAK,  /* refused, but not by what should have: it may work elsewhere */
        SKIPPED
};

struct attempt {
        const char *name;
        enum verdict (*run)(char **args);
};

extern const struct attempt call_attempts[], proc_attempts[], net_attempts[], file_attempts[],
        root_attempts[];

/* Prints one line for the test, and returns `v`. */
enum verdict say(enum verdict v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says HELD with the errno when r < 0, and BROKE otherwise. */
enum verdict must_fail(long r, const char *what);

/* Returns a variable that the test has set; ends the attempt when it is not set. */
const char *setting(const char *name);
long setting_number(const char *name);
/* Returns DIR/NAME, in one of a few buffers that are used in turn. */
const char *join(const char *dir, const char *name);
/* Returns true until about `ms` after the first call, for which *state is 0. */
bool still_time(long *state, long ms);
