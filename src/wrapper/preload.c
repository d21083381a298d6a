/* preload: keeps the library in the programs of a command (preload.h). */
#include "wrapper/preload.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/slice.h"
#include "intercept/preloaded.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LIST "LD_PRELOAD"
#define PAGE 4096

static char word[16]; /* without PRELOADED_FIRST; empty: no program of the command has the library */
static char library[PATH_MAX], wrapper[PATH_MAX];

/* ld.so starts a program without a library that it cannot load, and nobody would be asked about what that starts. */
static int try_library(void)
{
        _close_ int fd = open(library, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        void *p = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        (void)munmap(p, PAGE);
        return 0;
}

static int copy(char *to, size_t size, struct slice from)
{
        if (from.n == 0 || from.n >= size)
                return -EINVAL;
        memcpy(to, from.p, from.n);
        to[from.n] = '\0';
        return 0;
}

static int parse(const char *text, bool *ret_is_first)
{
        struct slice rest = slice_from_str(text), first = slice_split(&rest, ':');
        struct slice path = slice_split(&rest, ':');
        *ret_is_first = slice_starts(first, S(PRELOADED_FIRST));
        if (*ret_is_first)
                first = slice_from(first.p + strlen(PRELOADED_FIRST), first.n - strlen(PRELOADED_FIRST));
        if (!slice_eq(first, S(PRELOADED_ALL)) && !slice_eq(first, S(PRELOADED_SHELL)) &&
            !slice_eq(first, S(PRELOADED_OFF)))
                return -EINVAL;
        int r = copy(word, sizeof(word), first);
        if (r == 0)
                r = copy(library, sizeof(library), path);
        if (r == 0)
                r = rest.p ? copy(wrapper, sizeof(wrapper), rest) : -EINVAL;
        return r;
}

/* The program's own libraries stay in the list. */
static int strip(void)
{
        const char *list = getenv(LIST);
        size_t n = strlen(library);
        if (!list || strncmp(list, library, n) != 0 || (list[n] && list[n] != ':'))
                return 0;
        if (!list[n])
                return unsetenv(LIST) < 0 ? -errno : 0;
        _free_ char *left = mem_strdup(list + n + 1);
        return setenv(LIST, left, 1) < 0 ? -errno : 0;
}

static int take_stream(int *ret, bool *ret_has_given)
{
        const char *text = getenv(PRELOADED_STREAM_VARIABLE);
        uint64_t number;
        if (!text)
                return 0;
        *ret_has_given = strncmp(text, PRELOADED_GIVEN, strlen(PRELOADED_GIVEN)) == 0;
        if (*ret_has_given)
                text += strlen(PRELOADED_GIVEN);
        if (slice_to_u64(slice_from_str(text), INT_MAX, &number) < 0 || *text == '\0')
                return -EINVAL;
        *ret = (int)number;
        return unsetenv(PRELOADED_STREAM_VARIABLE) < 0 ? -errno : 0;
}

int preload_begin(bool *ret_is_first, int *ret_stream, bool *ret_has_given)
{
        const char *text = getenv(PRELOADED_VARIABLE);
        *ret_is_first = *ret_has_given = false;
        *ret_stream = -1;
        if (!text)
                return 0;
        int r = parse(text, ret_is_first);
        if (r == 0)
                r = strip();
        if (r == 0)
                r = take_stream(ret_stream, ret_has_given);
        return r == 0 && *ret_is_first ? try_library() : r;
}

int preload_restore(void)
{
        if (!*word)
                return 0;
        if (strcmp(word, PRELOADED_OFF) == 0)
                return unsetenv(PRELOADED_VARIABLE) < 0 || unsetenv(ESCALATE_VARIABLE) < 0 ? -errno : 0;
        const char *list = getenv(LIST);
        _free_ char *variable = mem_printf("%s:%s:%s", word, library, wrapper);
        _free_ char *libraries = list && *list ? mem_printf("%s:%s", library, list) : mem_strdup(library);
        return setenv(PRELOADED_VARIABLE, variable, 1) < 0 || setenv(LIST, libraries, 1) < 0 ? -errno : 0;
}
