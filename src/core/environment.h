/* environment: facts about this machine for clients (docs/PROTOCOL.md), looked up once at start. */
#pragma once

#include "wire/jsonw.h"

#define ENVIRONMENT_INFO_HINT 1024

struct backends;

void environment_init(void);
void environment_release(void);

const char *environment_shell(void);      /* path of the login shell */
const char *environment_home(void);       /* NULL when the home directory is not known */
const char *environment_codex_home(void); /* CODEX_HOME, or .codex in the home directory; never NULL */
const char *environment_tmpdir(void);     /* TMPDIR, made absolute; NULL when it is unset */
const char *environment_user(void);       /* name of the server's user in /etc/passwd, or the uid */
/* Writes the members of environment/info into the open object of `w`. `can_intercept`: programs can be intercepted here, as far as is
 * known. `known` is the result of the self-test; NULL: the self-test
 * has not finished, and the members about sandboxes are left out. */
void environment_info_write(struct jsonw *w, const struct backends *known, bool can_intercept,
                            bool can_manage_network);
