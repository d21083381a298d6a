/* terminal: modes and size of the terminal that `farhand` runs on. */
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

void terminal_init(struct terminal *t)
{
        *t = (struct terminal){ .fd = isatty(STDIN_FILENO) ? STDIN_FILENO : -1 };
}

void terminal_make_raw(struct terminal *t)
{
        if (t->fd < 0 || t->is_raw || tcgetattr(t->fd, &t->before) < 0)
                return;
        struct termios raw = t->before;
        cfmakeraw(&raw);
        t->is_raw = tcsetattr(t->fd, TCSADRAIN, &raw) == 0;
}

void terminal_restore(struct terminal *t)
{
        if (t->is_raw)
                (void)tcsetattr(t->fd, TCSADRAIN, &t->before);
        t->is_raw = false;
}

bool terminal_size(unsigned *ret_rows, unsigned *ret_columns)
{
        struct winsize size;
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
                if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
                        *ret_rows = size.ws_row;
                        *ret_columns = size.ws_col;
                        return true;
                }
        }
        return false;
}
