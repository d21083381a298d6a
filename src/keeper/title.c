/* title: overwrites the memory in which the kernel put the arguments of this process. /proc/PID/cmdline shows that memory
 * (title.h). */
#include "keeper/title.h"

#include "base/fd.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define STAT_BYTES 4096
/* arg_start of proc(5) is this many fields after the name of the program. Fields are counted from the parenthesis that ends the
 * name, because the name may hold spaces and parentheses. */
#define ARG_START 46

static char *arguments, *variables;
static size_t arguments_bytes, variables_bytes;

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
        unsigned long long to = end && *end == ' ' ? strtoull(end, &end, 10) : 0;
        unsigned long long env_from = end && *end == ' ' ? strtoull(end, &end, 10) : 0;
        unsigned long long env_to = end && *end == ' ' ? strtoull(end, NULL, 10) : 0;
        /* Under valgrind the arguments that the kernel knows are valgrind's, and ours are a copy. */
        if (to <= from || (char *)(uintptr_t)from != program_invocation_name)
                return;
        arguments = (char *)(uintptr_t)from;
        arguments_bytes = (size_t)(to - from);
        if (env_to > env_from) {
                variables = (char *)(uintptr_t)env_from;
                variables_bytes = (size_t)(env_to - env_from);
        }
}

void title_set(const char *name)
{
        for (size_t i = 0; i < arguments_bytes; i++)
                arguments[i] = *name && i + 1 < arguments_bytes ? *name++ : 0;
}

static bool is_kept(const char *variable, const char *const *names)
{
        for (; *names; names++) {
                size_t n = strlen(*names);
                if (strncmp(variable, *names, n) == 0 && variable[n] == '=')
                        return true;
        }
        return false;
}

void title_keep_environment(const char *const *names)
{
        size_t count = 0;
        for (size_t i = 0; environ[i]; i++) {
                if (!is_kept(environ[i], names))
                        continue;
                /* A copy, because the memory that the variable lies in is overwritten below. */
                char *copy = strdup(environ[i]);
                if (copy)
                        environ[count++] = copy;
        }
        environ[count] = NULL;
        size_t at = 0;
        if (variables_bytes > 0)
                memset(variables, 0, variables_bytes);
        for (size_t i = 0; i < count; i++) {
                size_t n = strlen(environ[i]) + 1;
                if (variables_bytes - at < n)
                        return;
                memcpy(variables + at, environ[i], n);
                at += n;
        }
}
