/* title: gives a process that is a copy of the server its own name in ps, instead of the server's command line.
 *
 * Inside of a sandbox that command line would also reveal something of the outside.
 */
#pragma once

/* To be called once in the new process, before title_set: finds where the command line lies. When that fails, title_set does
 * nothing. */
void title_begin(void);
/* Makes ps(1) show `name` as the command line of this process. Only writes memory, so a process that must not call functions of
 * libc may call it. */
void title_set(const char *name);
/* Removes all variables but those in `names` (NULL-terminated) from the environment and from /proc/PID/environ. */
void title_keep_environment(const char *const *names);
