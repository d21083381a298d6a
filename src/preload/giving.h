/* giving: hands the broker the descriptors that an escalated program is to have, before the wrapper that waits for its end is executed: so
 * the program starts while the wrapper does. As asking.h, it may be called anywhere. */
#pragma once

#include "base/compat.h"

/* Sends every descriptor that a program which is executed now would inherit, but not `shared`, and the umask. Returns false when nothing was
 * sent: then the wrapper is to do it. */
NODISCARD bool giving_give(int stream, int shared);

/* Appends a number to a text, and a NUL. Returns where that is. */
char *giving_number(char *to, unsigned number);
