/* title: what ps shows of a process that is a copy of the server: its own name, not the server's command line.
 *
 * Inside a sandbox that line would also tell of the outside.
 */
#pragma once

/* In the copy, once, before title_set: finds the place of the command line. May fail, and then nothing is shown anew. */
void title_begin(void);
/* Plain memory writes only: for processes that may call nothing. */
void title_set(const char *name);
/* Keeps these variables (NULL-terminated) in the environment and in what the kernel shows of it. */
void title_keep_environment(const char *const *names);
