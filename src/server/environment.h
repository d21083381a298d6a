/* environment: what a client may know of this machine (PROTOCOL.md 8.1). Looked up once, at start. */
#pragma once

#include "wire/jsonw.h"

#define ENVIRONMENT_INFO_HINT 1024

struct backends;

void environment_init(void);
void environment_release(void);

const char *environment_shell(void); /* path of the login shell */
/* `known`: what the self-test found; NULL: it is not over, and nothing is said of it. */
void environment_info_write(struct jsonw *w, const struct backends *known);
