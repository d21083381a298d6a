/* environments_file_test: which files environments are read from; the files are in a directory of the test. */
#include "env/environments_file.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/tree_rig.h"

#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT "default = 'a'\n[[environments]]\nid='a'\nurl='ws://h'\n"

static void put_text(struct tree_rig *rig, const char *name, struct slice text, mode_t mode)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
        must(fd >= 0 && fd_write_all(fd, text) == 0 && fchmod(fd, mode) == 0);
}

static struct environments_file read_at(struct tree_rig *rig, const char *name)
{
        struct environments_file file;
        environments_file_read(&rig->arena, at(rig, name), &file);
        return file;
}

/* Sets the variables that environments_load reads. */
static void set_variables(const char *home, const char *farhand_home, const char *codex_home)
{
        static const char *const unset[] = {
                "XDG_CONFIG_HOME", "FARHAND_URL", "CODEX_EXEC_SERVER_URL", "FARHAND_TOKEN", "FARHAND_HOME",
                "CODEX_HOME",      "HOME"
        };
        for (size_t i = 0; i < ARRAY_LEN(unset); i++)
                must(unsetenv(unset[i]) == 0);
        must(!home || setenv("HOME", home, 1) == 0);
        must(!farhand_home || setenv("FARHAND_HOME", farhand_home, 1) == 0);
        must(!codex_home || setenv("CODEX_HOME", codex_home, 1) == 0);
}

TEST(a_file_is_read_and_only_a_missing_name_is_no_file)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();

        put_text(&rig, "e", S(TEXT), 0644);
        eq_int(read_at(&rig, "e").error, 0);
        eq_slice(read_at(&rig, "e").text, S(TEXT));
        put_text(&rig, "empty", S(""), 0644);
        eq_int(read_at(&rig, "empty").error, 0);

        eq_int(read_at(&rig, "missing").error, -ENOENT);
        eq_int(read_at(&rig, "no/directory").error, -ENOENT);
        eq_int(read_at(&rig, "e/below").error, -ENOTDIR);
        put_directory(&rig, "d");
        eq_int(read_at(&rig, "d").error, -EISDIR);
        put_link(&rig, "nowhere", "link");
        ok(read_at(&rig, "link").error < 0 && read_at(&rig, "link").error != -ENOENT);
        eq_str(read_at(&rig, "link").why, "it is a symlink that leads nowhere");
        put_link(&rig, "loop", "loop");
        eq_int(read_at(&rig, "loop").error, -ELOOP);
        must(mkfifo(at(&rig, "fifo"), 0600) == 0);
        eq_int(read_at(&rig, "fifo").error, -EINVAL);
        eq_str(read_at(&rig, "fifo").why, "it is not a regular file");
        put_link(&rig, "/dev/zero", "zero");
        eq_int(read_at(&rig, "zero").error, -EINVAL);
        put_text(&rig, "large", S(""), 0644);
        must(truncate(at(&rig, "large"), LIMIT_ENVIRONMENTS_BYTES + 1) == 0);
        eq_int(read_at(&rig, "large").error, -EFBIG);
        if (geteuid() != 0) {
                put_text(&rig, "secret", S(TEXT), 0);
                eq_int(read_at(&rig, "secret").error, -EACCES);
        }
        struct environments_file none;
        environments_file_read(&rig.arena, NULL, &none);
        eq_int(none.error, -ENOENT);
}

TEST(variables_and_files_of_the_machine_are_looked_up)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct environments e;
        struct err err = ERR_INIT;

        set_variables(rig.root, NULL, NULL);
        eq_int(environments_load(&rig.arena, NULL, NULL, &e, &err), 0);
        ok(!e.source && e.count == 1 && e.list[0].kind == ENVIRONMENT_LOCAL);

        put_directory(&rig, "c");
        put_text(&rig, "c/environments.toml", S(TEXT), 0644);
        set_variables(rig.root, NULL, at(&rig, "c"));
        eq_int(environments_load(&rig.arena, NULL, NULL, &e, &err), 0);
        eq_str(e.source, at(&rig, "c/environments.toml"));
        eq_str(environments_default(&e)->id, "a");
        eq_int(environments_load(&rig.arena, NULL, "local", &e, &err), 0);
        eq_str(environments_default(&e)->id, "local");
        eq_int(environments_load(&rig.arena, "ws://u", NULL, &e, &err), 0);
        eq_str(e.source, "--url");
        eq_int(environments_load(&rig.arena, NULL, "x", &e, &err), -ENOENT);
        eq_str(err.text, "unknown environment `x`; known: local, a");

        /* When the file of Farhand exists and cannot be read, the file of Codex is not read. */
        put_text(&rig, "not-a-directory", S(""), 0644);
        set_variables(rig.root, at(&rig, "not-a-directory"), at(&rig, "c"));
        eq_int(environments_load(&rig.arena, NULL, NULL, &e, &err), -ENOTDIR);

        set_variables(NULL, NULL, NULL);
        must(setenv("CODEX_EXEC_SERVER_URL", "none", 1) == 0);
        eq_int(environments_load(&rig.arena, NULL, NULL, &e, &err), 0);
        ok(e.is_disabled && e.count == 0);
        set_variables(NULL, NULL, NULL);
}
