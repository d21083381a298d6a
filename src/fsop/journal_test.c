/* journal_test: what the next server removes after a kill, and what it must leave alone. */
#include "fsop/journal.h"

#include "fsop/rig.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static size_t count_entries(const char *path)
{
        DIR *dir = opendir(path);
        size_t n = 0;

        ok(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

static struct journal *journal_in(const struct rig *rig)
{
        struct err err = ERR_INIT;
        struct journal *j;

        eq_int(journal_open(rig_path(rig, "state"), &j, &err), 0);
        journal_sweep(j, NULL, NULL);
        ok(j);
        return j;
}

/* Runs a server that records `name` in its journal, makes the file and is killed. */
static void die_with(const struct rig *rig, const char *name)
{
        pid_t pid = fork();

        ok(pid >= 0);
        if (pid == 0) {
                struct err err = ERR_INIT;
                struct journal *j;
                if (journal_open(rig_path(rig, "state"), &j, &err) < 0 || journal_add(j, rig->root, name) < 0)
                        _exit(1);
                rig_file(rig, name, S("half"));
                raise(SIGKILL);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFSIGNALED(status));
}

TEST(temporary_names_differ_and_have_their_form)
{
        char a[JOURNAL_TEMP_BYTES], b[JOURNAL_TEMP_BYTES];

        journal_temp_name(a);
        journal_temp_name(b);
        ok(strcmp(a, b) != 0);
        eq_int(strlen(a), JOURNAL_TEMP_BYTES - 1);
        ok(strncmp(a, JOURNAL_TEMP_PREFIX, strlen(JOURNAL_TEMP_PREFIX)) == 0);
        eq_str(a + strlen(a) - strlen(JOURNAL_TEMP_SUFFIX), JOURNAL_TEMP_SUFFIX);
}

TEST(next_start_removes_what_a_killed_server_left)
{
        _rig_ struct rig rig = rig_new();
        char name[JOURNAL_TEMP_BYTES];

        journal_temp_name(name);
        die_with(&rig, name);
        eq_int(access(rig_path(&rig, name), F_OK), 0);
        eq_int(count_entries(rig_path(&rig, "state")), 1);

        struct journal *j = journal_in(&rig);
        eq_int(access(rig_path(&rig, name), F_OK), -1);
        eq_int(count_entries(rig_path(&rig, "state")), 1); /* only the new journal */
        journal_close(j);
        eq_int(count_entries(rig_path(&rig, "state")), 0);
}

TEST(sweep_touches_no_other_name_and_no_link_or_directory)
{
        _rig_ struct rig rig = rig_new();
        char link[JOURNAL_TEMP_BYTES], directory[JOURNAL_TEMP_BYTES];

        rig_file(&rig, "target", S("kept"));
        die_with(&rig, "precious");
        die_with(&rig, ".farhand-0.tmp");
        journal_temp_name(link);
        die_with(&rig, link);
        eq_int(unlink(rig_path(&rig, link)), 0);
        rig_link(&rig, link, "target");
        journal_temp_name(directory);
        die_with(&rig, directory);
        eq_int(unlink(rig_path(&rig, directory)), 0);
        rig_directory(&rig, directory);

        journal_close(journal_in(&rig));
        eq_int(access(rig_path(&rig, "precious"), F_OK), 0);
        eq_int(access(rig_path(&rig, ".farhand-0.tmp"), F_OK), 0);
        eq_int(access(rig_path(&rig, link), F_OK), 0);
        eq_int(access(rig_path(&rig, directory), F_OK), 0);
        eq_int(count_entries(rig_path(&rig, "state")), 0);
}

TEST(names_in_a_directory_that_became_a_link_are_left_alone)
{
        _rig_ struct rig rig = rig_new();
        char name[JOURNAL_TEMP_BYTES], path[128];

        rig_directory(&rig, "d");
        journal_temp_name(name);
        struct journal *j = journal_in(&rig);
        ok(journal_add(j, rig_path(&rig, "d"), name) >= 0);
        journal_close(j);
        eq_int(count_entries(rig_path(&rig, "state")), 1);

        eq_int(rename(rig_path(&rig, "d"), rig_path(&rig, "e")), 0);
        rig_link(&rig, "d", "e");
        snprintf(path, sizeof(path), "e/%s", name);
        rig_file(&rig, path, S("x"));
        journal_close(journal_in(&rig));
        eq_int(access(rig_path(&rig, path), F_OK), 0);
}

TEST(journal_of_a_living_server_is_not_swept)
{
        _rig_ struct rig rig = rig_new();
        char name[JOURNAL_TEMP_BYTES];

        journal_temp_name(name);
        struct journal *j = journal_in(&rig);
        int slot = journal_add(j, rig.root, name);
        ok(slot >= 0);
        rig_file(&rig, name, S("half"));

        struct journal *other = journal_in(&rig);
        eq_int(access(rig_path(&rig, name), F_OK), 0);
        eq_int(count_entries(rig_path(&rig, "state")), 2);
        journal_close(other);

        /* The record was removed, so the next start must leave the file. */
        journal_remove(j, slot);
        journal_close(j);
        eq_int(count_entries(rig_path(&rig, "state")), 0);
        eq_int(access(rig_path(&rig, name), F_OK), 0);
}

TEST(torn_and_foreign_journals_are_survived)
{
        _rig_ struct rig rig = rig_new();
        static char noise[300000];

        rig_directory(&rig, "state");
        memset(noise, 'x', sizeof(noise));
        rig_file(&rig, "state/journal-noise", slice_from(noise, sizeof(noise)));
        rig_file(&rig, "state/journal-short", S("/tm"));
        rig_file(&rig, "state/journal-nameless", S("/tmp\0"));
        rig_file(&rig, "state/journal-climbing", S("/tmp\0../../etc/passwd\0"));
        rig_file(&rig, "state/other", S("kept"));
        rig_fifo(&rig, "state/journal-fifo");
        rig_link(&rig, "state/journal-link", "other");

        journal_close(journal_in(&rig));
        eq_int(count_entries(rig_path(&rig, "state")), 3); /* other, the FIFO, the link */
}

TEST(slots_are_bounded_and_come_back)
{
        _rig_ struct rig rig = rig_new();
        struct journal *j = journal_in(&rig);
        char name[JOURNAL_TEMP_BYTES];

        journal_temp_name(name);
        for (int i = 0; i < JOURNAL_SLOTS; i++)
                eq_int(journal_add(j, "/tmp", name), i);
        eq_int(journal_add(j, "/tmp", name), -EAGAIN);
        journal_remove(j, 7);
        eq_int(journal_add(j, "/tmp", name), 7);

        char longest[PATH_MAX + 2];
        memset(longest, '/', sizeof(longest));
        longest[PATH_MAX + 1] = '\0';
        eq_int(journal_add(j, longest, name), -ENAMETOOLONG);
        longest[NAME_MAX] = '\0'; /* a name as long as that of any file */
        journal_remove(j, 9);
        eq_int(journal_add(j, "/tmp", longest), 9);
        for (int i = 0; i < JOURNAL_SLOTS; i++)
                journal_remove(j, i);
        journal_close(j);
        eq_int(count_entries(rig_path(&rig, "state")), 0);
}

TEST(state_directory_that_others_can_write_is_not_used)
{
        _rig_ struct rig rig = rig_new();
        struct err err = ERR_INIT;
        struct journal *j;

        rig_directory(&rig, "state");
        eq_int(chmod(rig_path(&rig, "state"), 0770), 0);
        eq_int(journal_open(rig_path(&rig, "state"), &j, &err), -EPERM);
        ok(j == NULL);
        ok(strstr(err.text, "not ours alone"));

        rig_link(&rig, "link", "state");
        ok(journal_open(rig_path(&rig, "link"), &j, &err) < 0);
        rig_file(&rig, "file", S(""));
        ok(journal_open(rig_path(&rig, "file"), &j, &err) < 0);
        eq_int(journal_open(rig_path(&rig, "new/deep/state"), &j, &err), 0);
        journal_close(j);
        journal_close(NULL);
}
