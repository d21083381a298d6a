/* user_limits: reads and sets the limits of user namespaces. It makes raw system calls only, because it is also called
 * between clone and execve. */
#include "sandbox/user_limits.h"

#include "base/sys.h"

#include <errno.h>

#define INSTANCES "max_inotify_instances"
#define WATCHES "max_inotify_watches"
#define NAMESPACES "max_user_namespaces"
#define DIGITS_MAX 10

static uint32_t number_read(int directory, const char *name)
{
        char text[DIGITS_MAX + 1];
        int fd = sys_openat(directory, name, O_RDONLY);
        long n = fd < 0 ? fd : sys_read(fd, text, sizeof(text));
        if (fd >= 0)
                sys_close(fd);
        uint64_t number = 0;
        for (long i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
                number = number * 10 + (uint64_t)(text[i] - '0');
        return (uint32_t)MIN(number, (uint64_t)INT32_MAX);
}

static int number_write(int directory, const char *name, uint32_t number)
{
        char text[DIGITS_MAX];
        size_t at = sizeof(text);
        do
                text[--at] = (char)('0' + number % 10);
        while ((number /= 10) > 0);
        int fd = sys_openat(directory, name, O_WRONLY);
        if (fd < 0)
                return fd;
        long r = sys_write(fd, text + at, sizeof(text) - at);
        sys_close(fd);
        return (int)MIN(r, 0L);
}

struct user_limits user_limits_read(void)
{
        int directory = sys_open(USER_LIMITS_DIRECTORY, O_PATH | O_DIRECTORY);
        if (directory < 0)
                return (struct user_limits){ 0, 0 };
        struct user_limits found = { number_read(directory, INSTANCES), number_read(directory, WATCHES) };
        sys_close(directory);
        return found;
}

struct user_limits user_limits_of_one(struct user_limits all)
{
        return (struct user_limits){ all.inotify_instances / 2, all.inotify_watches / 2 };
}

struct user_limits user_limits_of_all(struct user_limits all)
{
        return (struct user_limits){ all.inotify_instances - all.inotify_instances / 4,
                                     all.inotify_watches - all.inotify_watches / 4 };
}

int user_limits_set_at(int directory, struct user_limits l, bool may_have_children)
{
        int r = l.inotify_instances > 0 ? number_write(directory, INSTANCES, l.inotify_instances) : 0;
        if (r == 0 && l.inotify_watches > 0)
                r = number_write(directory, WATCHES, l.inotify_watches);
        if (r == 0 && !may_have_children)
                r = number_write(directory, NAMESPACES, 0);
        return r;
}

int user_limits_set(struct user_limits l, bool may_have_children)
{
        int directory = sys_open(USER_LIMITS_DIRECTORY, O_PATH | O_DIRECTORY);
        if (directory < 0)
                return directory;
        int r = user_limits_set_at(directory, l, may_have_children);
        sys_close(directory);
        return r;
}
