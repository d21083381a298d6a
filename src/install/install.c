/* install: `farhand mcp install` and `farhand mcp uninstall`: show a change of a client's configuration, ask, and write it. */
#include "install/install.h"

#include "base/args.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "cli/typed_answer.h"
#include "install/clients.h"
#include "install/config_file.h"
#include "install/diff.h"
#include "install/json_edit.h"
#include "install/toml_edit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

struct wishes {
        const struct client *client;
        bool prints_only, is_yes;
        const char *command;
        char **args; /* of `farhand mcp` */
        size_t arg_count;
};

/* ---- the edits ---- */

static int edit_add(struct arena *a, const struct client *client, const struct slice *text,
                    const struct entry *entry, struct slice *ret, struct err *err)
{
        return client->shape.form == FORM_TOML ? toml_edit_add(a, text, &client->shape, entry, ret, err)
                                               : json_edit_add(a, text, &client->shape, entry, ret, err);
}

static int edit_remove(struct arena *a, const struct client *client, struct slice text, struct slice *ret,
                       struct err *err)
{
        return client->shape.form == FORM_TOML ? toml_edit_remove(a, text, &client->shape, ret, err)
                                               : json_edit_remove(a, text, &client->shape, ret, err);
}

/* Adds the entry, and makes sure that removing it gives the old bytes. */
static int add_tried(struct arena *a, const struct client *client, const struct config_file *file,
                     const struct entry *entry, struct slice *ret, struct err *err)
{
        struct slice back;
        int r = edit_add(a, client, file->exists ? &file->text : NULL, entry, ret, err);
        if (r == -EEXIST)
                return err_wrap(err, "`farhand mcp uninstall %s` takes it away; `%s`", client->name,
                                printable_str(a, file->path));
        if (r <= 0)
                return r < 0 ? err_wrap(err, "`%s` was not understood", printable_str(a, file->path)) : r;
        int undone = edit_remove(a, client, *ret, &back, err);
        bool is_back =
                file->exists ? undone == EDIT_CHANGED && slice_eq(back, file->text) : undone == EDIT_EMPTY;
        return is_back ? r
                       : err_set(err, 0, -EINVAL,
                                 "the entry could not be taken out of `%s` again: nothing was written",
                                 printable_str(a, file->path));
}

/* ---- the program ---- */

static bool is_same_file(const char *path, const char *other)
{
        struct stat a, b;
        return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Returns the path of this program: the one in PATH if that is this program, because it stays when the program is replaced. The path
 * is absolute, since a client may be started with another PATH. */
static const char *own_path(struct arena *a, struct err *err)
{
        char self[PATH_MAX];
        const char *path = getenv("PATH");
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

        if (n < 0) {
                (void)err_set(err, 0, -errno, "/proc/self/exe: %s", errno_text(errno));
                return NULL;
        }
        self[n] = '\0';
        for (struct slice rest = slice_from_str(path ? path : ""); rest.p;) {
                struct slice directory = slice_split(&rest, ':');
                const char *found = arena_printf(a, "%.*s/" ENTRY_NAME, SLICE(directory));
                if (found[0] == '/' && is_same_file(found, "/proc/self/exe"))
                        return found;
        }
        return arena_dup(a, slice_from_str(self));
}

static int entry_make(struct arena *a, const struct wishes *w, struct entry *ret, struct err *err)
{
        const char **args = arena_alloc(a, (w->arg_count + 1) * sizeof(*args));
        size_t bytes = 0;

        *ret = (struct entry){ .command = w->command ? w->command : own_path(a, err), .args = args };
        if (!ret->command)
                return err->code;
        args[ret->arg_count++] = "mcp";
        for (size_t i = 0; i < w->arg_count; i++)
                args[ret->arg_count++] = w->args[i];
        for (size_t i = 0; i <= ret->arg_count; i++) {
                struct slice word = slice_from_str(i > 0 ? args[i - 1] : ret->command);
                bytes += word.n;
                if (!utf8_is_valid(word))
                        return err_set(err, 0, -EINVAL, "the command line is not UTF-8");
        }
        if (bytes > LIMIT_CLIENT_ENTRY_BYTES)
                return err_set(err, 0, -E2BIG, "the command line is longer than %d bytes",
                               LIMIT_CLIENT_ENTRY_BYTES);
        return 0;
}

/* ---- asking ---- */

enum answer { ANSWER_YES, ANSWER_NO, ANSWER_NOBODY };

static enum answer ask(const char *question)
{
        char line[TYPED_ANSWER_BYTES];
        _close_ int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

        /* stdout is where the change is shown: where it is no terminal, nobody has seen what the question is about. */
        if (fd < 0 || !isatty(STDOUT_FILENO))
                return ANSWER_NOBODY;
        (void)tcflush(fd, TCIFLUSH); /* what was typed before the question is no answer */
        for (;;) {
                (void)dprintf(fd, "%s [y]es, [N]o? ", question);
                if (typed_answer_read(fd, line) <= 0)
                        return ANSWER_NO;
                if (typed_answer_is(line, "y", "yes"))
                        return ANSWER_YES;
                if (line[0] == '\0' || typed_answer_is(line, "n", "no"))
                        return ANSWER_NO;
        }
}

/* Shows the change, asks, and writes. `text` NULL: the file is removed. */
static int make_change(struct arena *a, const struct wishes *w, const struct config_file *file,
                       const struct slice *text, const char *verb, struct err *err)
{
        const char *path = printable_str(a, file->path);

        printf("%s%s:\n", path, !file->exists ? " (a new file)" : !text ? " (is removed)" : "");
        diff_print(file->text, text ? *text : S(""));
        if (fflush(stdout) != 0)
                return err_set(err, 0, -EIO, "stdout: %s", errno_text(errno));
        if (w->prints_only)
                return 0;
        switch (w->is_yes ? ANSWER_YES : ask("Write this?")) {
        case ANSWER_YES:
                break;
        case ANSWER_NO:
                return err_set(err, 0, -ECANCELED, "nothing was written");
        case ANSWER_NOBODY:
                return err_set(
                        err, 0, -ENOTTY,
                        "nothing was written: there is no terminal to ask at; --yes writes without asking");
        }
        int r = config_file_replace(a, file, text, err);
        if (r == 0)
                printf("%s %s\n", verb, path);
        return r;
}

/* ---- the verbs ---- */

static int find_file(struct arena *a, const struct client *client, struct config_file *ret, struct err *err)
{
        const char *path = client->path(a);
        if (!path)
                return err_set(
                        err, 0, -ENOENT,
                        "no absolute path in HOME, or in the variable of %s, says where its configuration is",
                        client->title);
        return config_file_read(a, path, ret, err);
}

static int add(struct arena *a, const struct wishes *w, struct err *err)
{
        struct config_file file;
        struct entry entry;
        struct slice text;

        int r = entry_make(a, w, &entry, err);
        if (r == 0)
                r = find_file(a, w->client, &file, err);
        if (r == 0)
                r = add_tried(a, w->client, &file, &entry, &text, err);
        if (r == EDIT_NOTHING)
                printf("%s has it already: %s\n", w->client->title, printable_str(a, file.path));
        return r <= 0 ? r : make_change(a, w, &file, &text, "added " ENTRY_NAME " to", err);
}

static int take_away(struct arena *a, const struct wishes *w, struct err *err)
{
        struct config_file file;
        struct slice text;

        int r = find_file(a, w->client, &file, err);
        if (r < 0)
                return r;
        r = file.exists ? edit_remove(a, w->client, file.text, &text, err) : EDIT_NOTHING;
        if (r < 0)
                return err_wrap(err, "`%s`", printable_str(a, file.path));
        if (r == EDIT_NOTHING) {
                printf("%s does not have it: %s\n", w->client->title, printable_str(a, file.path));
                return 0;
        }
        /* A user who has put a symlink here means the file that it leads to. */
        if (r == EDIT_EMPTY && file.is_link)
                text = w->client->shape.form == FORM_TOML ? S("") : S("{}\n");
        return make_change(a, w, &file, r == EDIT_EMPTY && !file.is_link ? NULL : &text,
                           "took " ENTRY_NAME " out of", err);
}

/* Reads the command line. Returns -1 when *ret is filled, or the exit code. */
static int parse(int argc, char **argv, bool is_install, struct wishes *ret)
{
        static const struct arg end = { .name = NULL };
        int rest = 0;
        const struct arg table[] = {
                { "print", ARG_FLAG, NULL, "only show what would change", .target = &ret->prints_only },
                { "yes", ARG_FLAG, NULL, "write without asking", .target = &ret->is_yes, .letter = 'y' },
                is_install ? (struct arg){ "command", ARG_STRING, "PROGRAM",
                                           "what the client starts (default: the path of this program)",
                                           .target = &ret->command, .offers = OFFER_FILE }
                           : end,
                end,
        };
        const struct args spec = {
                .usage = is_install ? "farhand mcp install CLIENT [OPTIONS] [-- ARG...]"
                                    : "farhand mcp uninstall CLIENT [OPTIONS]",
                .about = is_install ? "Put `farhand mcp ARG...` into the configuration of a "
                                      "client: " CLIENTS_NAMES "."
                                    : "Take it out of the configuration of a client: " CLIENTS_NAMES ".",
                .table = table,
                .is_mixed = true,
                .operands = OFFER_CLIENT,
                .behind = OFFER_ENVIRONMENT,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        ret->client = rest < argc ? clients_find(argv[rest]) : NULL;
        ret->args = argv + rest + 1;
        ret->arg_count = rest < argc ? (size_t)(argc - rest - 1) : 0;
        if (ret->client && (is_install || ret->arg_count == 0))
                return -1;
        if (ret->client)
                fprintf(stderr, "error: unexpected argument '%s'", argv[rest + 1]);
        else if (rest < argc)
                fprintf(stderr, "error: unknown client '%s': " CLIENTS_NAMES, argv[rest]);
        else
                fprintf(stderr, "error: a client is needed: " CLIENTS_NAMES);
        fprintf(stderr, "\n\nUsage: %s\n", spec.usage);
        return 2;
}

static int finish(int r, const struct err *err)
{
        if (r < 0)
                fprintf(stderr, "error: %s\n", err->text);
        return r < 0 || fflush(stdout) != 0 ? 1 : 0;
}

int install_add(int argc, char **argv, bool (*takes)(int argc, char **argv))
{
        _arena_ struct arena a = ARENA_INIT;
        struct wishes w = { 0 };
        struct err err = ERR_INIT;

        int code = parse(argc, argv, true, &w);
        if (code >= 0)
                return code;
        /* The name of the client stands in front of the arguments, in the place of a program's. */
        if (!takes((int)w.arg_count + 1, w.args - 1))
                return 2;
        return finish(add(&a, &w, &err), &err);
}

int install_remove(int argc, char **argv)
{
        _arena_ struct arena a = ARENA_INIT;
        struct wishes w = { 0 };
        struct err err = ERR_INIT;

        int code = parse(argc, argv, false, &w);
        return code >= 0 ? code : finish(take_away(&a, &w, &err), &err);
}
