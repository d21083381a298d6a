/* title_test: the command line and the environment that the kernel shows. The tests change them in
 * a child, so that the test program keeps its own. */
#include "unit.h"

#include "keeper/title.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static bool shows(const char *wanted)
{
        char text[4096] = { 0 };
        int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        close(fd);
        return n > 0 && strcmp(text, wanted) == 0;
}

TEST(a_copy_shows_its_own_name_and_nothing_of_the_old)
{
        if (unit_is_valgrind()) {
                print_message("skipped: what the kernel shows are valgrind's arguments\n");
                skip();
        }
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                title_begin();
                title_set("a-name-that-is-longer-than-most-command-lines-are-and-is-cut-where-they-end-"
                          "if-need-be");
                bool is_cut = !shows("");
                title_set("x");
                _exit(is_cut && shows("x") ? 0 : 1);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}
