/* fs_change: `farhand fs rm`, `mv` and `mkdir`. */
#include "farfs/fs.h"

#include <errno.h>

/* ---- rm ---- */

static void remove_one(struct fs *fs, const char *given, bool is_recursive, bool with_force)
{
        struct farhand_error error;
        const char *name = fs_last_name(fs, given), *path = fs_path(fs, given);
        if (!path)
                return;
        if (strcmp(path, "/") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
                remote_say(&fs->remote, "refusing to remove '%s'", given);
                fs->has_failed = true;
                return;
        }
        if (farhand_remove(fs->client, path, is_recursive, with_force, &error) < 0)
                fs_complain(fs, given, &error);
}

int fs_rm(int argc, char **argv)
{
        struct fs fs = { 0 };
        bool is_recursive = false, with_force = false;
        const struct arg table[] = {
                REMOTE_ARGS(&fs.remote),
                { "recursive", ARG_FLAG, NULL, "directories too, with all that is in them", .letter = 'r',
                  .target = &is_recursive },
                { "force", ARG_FLAG, NULL, "what is not there is no error", .letter = 'f',
                  .target = &with_force },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs rm [OPTIONS] PATH...",
                                   .about = "Remove files and directories.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        int rest = 0, code = fs_begin(&fs, &spec, argc, argv, 1, -1, &rest);
        for (int i = rest; code < 0 && i < argc && !fs_is_lost(&fs); i++)
                remove_one(&fs, argv[i], is_recursive, with_force);
        return fs_end(&fs, code);
}

/* ---- mv ---- */

static void move(struct fs *fs, const char *from_given, const char *to_given)
{
        struct farhand_metadata m;
        struct farhand_error error;
        const char *from = fs_path(fs, from_given), *to = from ? fs_path(fs, to_given) : NULL;
        if (!from || !to)
                return;
        if (farhand_stat(fs->client, to, &m, NULL) == 0 && m.is_directory)
                to = fs_join(fs, to, fs_last_name(fs, from));
        if (farhand_rename(fs->client, from, to, &error) < 0)
                fs_complain(fs, from_given, &error);
}

int fs_mv(int argc, char **argv)
{
        struct fs fs = { 0 };
        const struct arg table[] = { REMOTE_ARGS(&fs.remote), { .name = NULL } };
        const struct args spec = { .usage = "farhand fs mv [OPTIONS] FROM TO",
                                   .about = "Rename a file or directory, or move it into another one.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        int rest = 0, code = fs_begin(&fs, &spec, argc, argv, 2, 2, &rest);
        if (code < 0)
                move(&fs, argv[rest], argv[rest + 1]);
        return fs_end(&fs, code);
}

/* ---- mkdir ---- */

int fs_mkdir(int argc, char **argv)
{
        struct fs fs = { 0 };
        bool with_parents = false;
        const struct arg table[] = {
                REMOTE_ARGS(&fs.remote),
                { "parents", ARG_FLAG, NULL, "with those above it; one that is there is no error",
                  .letter = 'p', .target = &with_parents },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs mkdir [OPTIONS] PATH...",
                                   .about = "Make directories.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_DIRECTORY };
        int rest = 0, code = fs_begin(&fs, &spec, argc, argv, 1, -1, &rest);
        for (int i = rest; code < 0 && i < argc && !fs_is_lost(&fs); i++) {
                struct farhand_error error;
                const char *path = fs_path(&fs, argv[i]);
                if (path && farhand_make_directory(fs.client, path, with_parents, &error) < 0)
                        fs_complain(&fs, argv[i], &error);
        }
        return fs_end(&fs, code);
}
