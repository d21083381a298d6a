/* terminal: the terminal that `farhand` runs on. It is raw while a remote program uses it, and is restored afterwards. */
#pragma once

#include "base/compat.h"

#include <termios.h>

struct terminal {
        int fd; /* -1: there is no terminal */
        bool is_raw;
        struct termios before;
};

/* Finds the terminal: stdin, if it is one. */
void terminal_init(struct terminal *t);
/* Makes the terminal raw, so that every key goes to the remote program. Does nothing without a terminal. */
void terminal_make_raw(struct terminal *t);
void terminal_restore(struct terminal *t);
/* Reads the size of the window. Returns false when it is unknown. */
NODISCARD bool terminal_size(unsigned *ret_rows, unsigned *ret_columns);
