/* programs: finds the programs farhand and farhand-net. PATH is not searched, because it may name a directory that another user can
 * write. */
#include "transport/programs.h"

#include "base/mem.h"

#include <limits.h>
#include <unistd.h>

#ifndef FARHAND_BINDIR
#define FARHAND_BINDIR "/usr/local/bin"
#endif

/* Returns the directory of a program, or NULL. */
static char *directory_of(const char *path)
{
        const char *slash = path ? strrchr(path, '/') : NULL;
        return slash ? slice_dup(slice_from(path, (size_t)(slash - path))) : NULL;
}

static char *own_directory(void)
{
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n <= 0)
                return NULL;
        self[n] = '\0';
        return directory_of(self);
}

/* Returns the path DIRECTORY/NAME if there is such a program, else NULL. */
static char *program_in(const char *directory, const char *name)
{
        if (!directory)
                return NULL;
        _free_ char *path = mem_printf("%s/%s", directory, name);
        return access(path, X_OK) == 0 ? TAKE(path) : NULL;
}

char *programs_farhand(const char *given)
{
        if (given)
                return mem_strdup(given);
        _free_ char *own = own_directory();
        char *found = program_in(own, "farhand");
        return found ? found : mem_strdup(FARHAND_BINDIR "/farhand");
}

char *programs_farhand_net(const char *given, const char *given_farhand)
{
        if (given)
                return mem_strdup(given);
        _free_ char *farhand = programs_farhand(given_farhand);
        _free_ char *directory = directory_of(farhand);
        _free_ char *libexec = mem_printf("%s/../libexec/farhand", directory ? directory : ".");
        char *found = program_in(libexec, "farhand-net");
        found = found ? found : program_in(directory, "farhand-net");
        return found ? found : mem_printf("%s/farhand-net", libexec);
}
