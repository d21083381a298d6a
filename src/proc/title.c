/* title: see title.h. The kernel shows what lies where it put the arguments. */
#include "proc/title.h"

#include "base/fd.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define STAT_BYTES 4096
#define ARG_START \
        46 /* fields behind the name, which is in parentheses and may hold anything: 48 and 49 of proc(5) */

static char *arguments;
static size_t arguments_bytes;

void title_begin(void)
{
        char text[STAT_BYTES];
        _close_ int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return;
        text[n] = 0;
        const char *at = strrchr(text, ')');
        for (int field = 0; at && field < ARG_START; field++)
                at = strchr(at + 1, ' ');
        char *end = NULL;
        unsigned long long from = at ? strtoull(at, &end, 10) : 0;
        unsigned long long to = end && *end == ' ' ? strtoull(end, NULL, 10) : 0;
        /* Under valgrind the kernel's arguments are valgrind's, and ours are a copy. */
        if (to <= from || (char *)(uintptr_t)from != program_invocation_name)
                return;
        arguments = (char *)(uintptr_t)from;
        arguments_bytes = (size_t)(to - from);
}

void title_set(const char *name)
{
        for (size_t i = 0; i < arguments_bytes; i++)
                arguments[i] = *name && i + 1 < arguments_bytes ? *name++ : 0;
}
