/* rules_files: reads .rules files from the directories of Codex and Farhand, or those that the command line names. */
#include "cli/rules.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/small_file.h"
#include "env/environments_file.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#define DIRECTORY "rules"
#define SUFFIX ".rules"

struct file_list {
        struct exec_rules_text *list; /* in the arena */
        size_t count, room;
};

static int fail(struct arena *a, const char *path, int code, const char *why, struct err *err)
{
        return err_set(err, 0, code, "failed to read rules at %s: %s (os error %d)", printable_str(a, path),
                       why ? why : errno_text(code), -code);
}

int rules_file_read(struct arena *a, const char *path, struct slice *ret, struct err *err)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_RULES_BYTES);
        const char *why = NULL;

        int r = small_file_read(path, &text, &why);
        if (r == -EFBIG)
                why = "it has more than 1 MiB";
        if (r < 0)
                return fail(a, path, r, why, err);
        *ret = slice_from(arena_dup(a, buf_slice(&text)), text.n);
        return 0;
}

static int add_file(struct arena *a, struct file_list *files, const char *path, struct err *err)
{
        if (files->count == LIMIT_RULES_FILES)
                return err_set(err, 0, -E2BIG, "there are more than %d files with rules", LIMIT_RULES_FILES);
        files->list = arena_room(a, files->list, files->count, &files->room, sizeof(files->list[0]));
        struct exec_rules_text *file = &files->list[files->count];
        file->name = path;
        int r = rules_file_read(a, path, &file->text, err);
        if (r == 0)
                files->count++;
        return r;
}

static int is_rules_name(const struct dirent *entry)
{
        size_t n = strlen(entry->d_name), suffix = sizeof(SUFFIX) - 1;
        return n >= suffix && strcmp(entry->d_name + n - suffix, SUFFIX) == 0;
}

static int by_name(const struct dirent **x, const struct dirent **y)
{
        return strcmp((*x)->d_name, (*y)->d_name);
}

/* Adds the files of a directory; only regular files, or symlinks to them, count. */
static int add_directory(struct arena *a, struct file_list *files, const char *home, struct err *err)
{
        if (!home)
                return 0;
        const char *directory = arena_printf(a, "%s/" DIRECTORY, home);
        struct dirent **entries;
        int count = scandir(directory, &entries, is_rules_name, by_name), r = 0;
        if (count < 0)
                return errno == ENOENT ? 0 : fail(a, directory, -errno, NULL, err);

        for (int i = 0; i < count; i++) {
                const char *path = arena_printf(a, "%s/%s", directory, entries[i]->d_name);
                struct stat st;
                bool is_other = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
                if (r == 0 && !is_other)
                        r = add_file(a, files, path, err);
                free(entries[i]);
        }
        free(entries);
        return r;
}

const char *rules_cwd(struct arena *a)
{
        struct environment_variables v;

        environment_variables_read(a, &v);
        return v.cwd;
}

const char *rules_file_default(struct arena *a)
{
        struct environment_variables v;

        environment_variables_read(a, &v);
        const char *home = environments_home_farhand(a, &v);
        return home ? arena_printf(a, "%s/" DIRECTORY "/default" SUFFIX, home) : NULL;
}

int rules_files_read(struct arena *a, const struct arg_list *files, bool has_defaults,
                     struct exec_rules_text **ret, size_t *ret_count, struct err *err)
{
        struct environment_variables v;
        struct file_list all = { 0 };
        int r = 0;

        environment_variables_read(a, &v);
        if (has_defaults) {
                /* A later host_executable takes the place of an earlier one: that of Farhand counts. */
                r = add_directory(a, &all, environments_home_codex(a, &v), err);
                if (r == 0)
                        r = add_directory(a, &all, environments_home_farhand(a, &v), err);
        }
        for (size_t i = 0; i < files->count && r == 0; i++)
                r = add_file(a, &all, files->items[i], err);
        *ret = all.list;
        *ret_count = all.count;
        return r;
}

struct exec_rules *rules_files_load(const struct arg_list *files, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        struct exec_rules_text *texts;
        size_t count;
        int r = rules_files_read(&a, files, files->count == 0, &texts, &count, err);

        return r < 0 ? NULL : exec_rules_new(texts, count, rules_cwd(&a), err);
}
