/* preloaded: the mechanism for machines on which the kernel lets no start of a program wait: ld.so loads a library into each program of
 * the command, and the library asks before the program executes another. In place of one that is denied or escalated it executes
 * farhand-execve-wrapper, which reads the answer.
 *
 *     command, with farhand-preload.so ──asks── broker
 *              ├──"Run", execve── the program, with farhand-preload.so
 *              └──another answer, execve── farhand-execve-wrapper, with the stream
 *
 * Where the library cannot ask (posix_spawn, whose child is to be asked about; a broker that may not look into the program) the wrapper
 * asks, and executes the program.
 *
 * The variable PRELOADED_VARIABLE tells library and wrapper of each other: WORD:LIBRARY:WRAPPER. Where a program has changed or lost it,
 * the library puts back what it has found when it was loaded. PRELOADED_STREAM_VARIABLE tells a wrapper the number of a stream on which the
 * question was asked already, behind PRELOADED_GIVEN when the descriptors were handed over, too; nobody else has it.
 */
#pragma once

#include "intercept/escalate_socket.h"

#include <limits.h>

/* The WORD of PRELOADED_VARIABLE: what it makes the library of a program do. */
#define PRELOADED_FIRST \
        "first-" /* before ALL or SHELL: the wrapper is the command's first program, about which was decided already */
#define PRELOADED_ALL "all" /* the program asks about every start that it makes */
#define PRELOADED_SHELL \
        "shell" /* the same, but of the programs that it starts only the shell itself asks about its own starts */
#define PRELOADED_OFF "off" /* the program asks about none of its starts */

#define PRELOADED_GIVEN "given-"

#define PRELOADED_WARNING                                                                                 \
        "the kernel lets no start of a program wait here: static programs, and programs that make their " \
        "system calls themselves, start others undecided"

struct preloaded {
        char library[PATH_MAX], wrapper[PATH_MAX];
};

/* Finds the two files that are installed with the server. Returns 0; or -errno, and *ret_missing is the name of what is not there or cannot be
 * used. */
NODISCARD int preloaded_find(struct preloaded *ret, const char **ret_missing);
