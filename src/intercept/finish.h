/* finish: ends a process that waits inside of execve, without touching its memory: a child of vfork has the memory of its parent.
 *
 * The process is attached to with ptrace; when execve fails, its registers are set so that it calls exit_group. Another thread can
 * put something else where the instruction stood; then the process goes on as after a failed execve, with its own program.
 *
 * The calling thread becomes the tracer for a moment, and waits for the process to leave the kernel. That is the process's own doing, and a
 * process that is slow holds up only the broker of its own command.
 */
#pragma once

#include "intercept/caller.h"

/* Ends the caller with an exit status. Returns 0 when it was told to exit or has gone; or -errno when it cannot be attached to: then
 * execve has failed with EACCES. */
int finish_with_code(const struct caller *c, int code);
/* Ends the caller with the wait status of the program that has run in its place: with the same signal, if that ends the caller and only
 * the caller, else with 128 + the signal. If the caller cannot be attached to, it is killed, because its program has run. */
void finish_with_status(const struct caller *c, int pidfd, int wait_status);
