/* terminal: the terminal of the person in front of us: raw while a far program has it, and restored whatever happens. */
#pragma once

#include "base/compat.h"

#include <termios.h>

struct terminal {
        int fd; /* -1: there is none */
        bool is_raw;
        struct termios before;
};

/* Finds the terminal: stdin, if it is one. */
void terminal_init(struct terminal *t);
/* Every key goes to the far side. Does nothing without a terminal. */
void terminal_make_raw(struct terminal *t);
void terminal_restore(struct terminal *t);
/* Reads the size of the window. Returns false when nobody knows it. */
NODISCARD bool terminal_size(unsigned *ret_rows, unsigned *ret_columns);
