/* flood_inotify: takes inotify instances and watches until there are no more, says how many it has, and keeps them until its
 * standard input ends. Built and run by test_exhaustion_inotify.py.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define INSTANCES_MAX 4096
#define WATCHES_MAX 1000000
#define DEPTH_MAX 6

static int instances[INSTANCES_MAX], newest[INSTANCES_MAX];
static int count;
static long watches;
static int full; /* how many instances got no watch any more; == count: none gets any */

/* Adds a watch to an instance. A file that has two names is watched and counted once. */
static bool watch(int i, const char *path)
{
        int wd = watches < WATCHES_MAX ? inotify_add_watch(instances[i], path, IN_MODIFY | IN_DONT_FOLLOW) : -1;
        if (wd > newest[i]) {
                newest[i] = wd;
                watches++;
        }
        return wd >= 0;
}

/* Watches a path with each instance: the kernel counts the same file once for each of them. */
static void watch_everywhere(const char *path)
{
        for (int i = full; i < count; i++) {
                if (watch(i, path))
                        continue;
                if (errno == EACCES || errno == ENOENT)
                        return;
                full = i + 1 == count ? count : full;
        }
}

static void walk(const char *path, int depth)
{
        DIR *dir = opendir(path);
        const struct dirent *e;
        while (dir && full < count && (e = readdir(dir))) {
                char below[4096];
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (snprintf(below, sizeof below, "%s/%s", path, e->d_name) >= (int)sizeof below)
                        continue;
                watch_everywhere(below);
                if (e->d_type == DT_DIR && depth < DEPTH_MAX)
                        walk(below, depth + 1);
        }
        if (dir)
                closedir(dir);
}

int main(void)
{
        char byte;
        while (count < INSTANCES_MAX && (instances[count] = inotify_init1(IN_CLOEXEC)) >= 0)
                count++;
        walk("/usr", 0);
        printf("%d %ld\n", count, watches);
        fflush(stdout);
        while (read(0, &byte, 1) > 0)
                continue;
        return 0;
}
