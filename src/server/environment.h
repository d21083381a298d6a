/* environment: what a client may know of this machine (PROTOCOL.md 8.1). Looked up once, at start. */
#pragma once

#include "wire/jsonw.h"

void environment_init(void);
void environment_release(void);

const char *environment_shell(void); /* path of the login shell */
void environment_info_write(struct jsonw *w);
