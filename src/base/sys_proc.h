/* sys_proc: reads facts about a process from /proc with the raw calls of base/sys.h. */
#pragma once

#include "base/sys.h"

/* Builds a path such as "/proc/12/task/34/children". A path that does not fit is cut, and then names no file. */
struct sys_path {
        char text[64];
        size_t n;
};

static inline void sys_path_add(struct sys_path *p, const char *text)
{
        while (*text && p->n < sizeof(p->text) - 1)
                p->text[p->n++] = *text++;
        p->text[p->n] = 0;
}

static inline void sys_path_add_pid(struct sys_path *p, pid_t pid)
{
        char digits[12];
        size_t n = sizeof(digits);
        digits[--n] = 0;
        do {
                digits[--n] = (char)('0' + pid % 10);
                pid /= 10;
        } while (pid > 0);
        sys_path_add(p, digits + n);
}

/* Opens /proc/PID/NAME for reading. Returns the descriptor or -errno. */
static inline int sys_proc_open(pid_t pid, const char *name)
{
        struct sys_path path = { .n = 0 };
        sys_path_add(&path, "/proc/");
        sys_path_add_pid(&path, pid);
        sys_path_add(&path, "/");
        sys_path_add(&path, name);
        return sys_open(path.text, O_RDONLY);
}

/* Returns the value of a text that is a decimal number; 0 for any other text. */
static inline pid_t sys_pid_parse(const char *s)
{
        int64_t pid = 0;
        if (!*s)
                return 0;
        for (; *s >= '0' && *s <= '9'; s++) {
                pid = pid * 10 + (*s - '0');
                if (pid > INT32_MAX)
                        return 0;
        }
        return *s ? 0 : (pid_t)pid;
}

/* Returns the parent of a process; 0 when it is unknown. /proc/PID/stat begins with "PID (NAME) STATE PARENT". The name may hold
 * blanks and parentheses, so the fields are counted from the last ')' on. */
static inline pid_t sys_parent_of(pid_t pid)
{
        int fd = sys_proc_open(pid, "stat");
        if (fd < 0)
                return 0;
        char text[256];
        long n = sys_read(fd, text, sizeof(text) - 1);
        sys_close(fd);
        if (n <= 0)
                return 0;
        text[n] = 0;

        long at = n;
        while (at > 0 && text[at - 1] != ')')
                at--;
        if (at == 0 || at + 3 >= n)
                return 0;
        char *field = text + at + 3; /* behind " STATE ", where the state is one letter */
        char *end = field;
        while (*end >= '0' && *end <= '9')
                end++;
        *end = 0;
        return sys_pid_parse(field);
}
