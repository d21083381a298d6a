/* placeholder_kept_test: placeholders never replace or remove files of users, also when the directory above is closed, moved or
 * replaced. */
#include "unit.h"

#include "sandbox/placeholder_rig_internal.h"

#include <sys/wait.h>

/* ---- placeholders that cannot be removed ---- */

/* Tries to remove placeholders as a user other than root, because root may remove anything. Returns 0 when every check holds. */
static int stuck_run(struct tree_rig *rig)
{
        const struct placeholder_locks *locks = locks_in(rig, "own/state");
        if (mkdir(at(rig, "own/w"), 0755) < 0)
                return 1;
        struct image *i = image_with(rig, locks, (const char *const[]){ "own/w/.git/", "own/w/f", NULL });
        make(i);
        if (chmod(at(rig, "own/w"), 0) < 0)
                return 2;
        placeholders_remove(i, true);
        placeholders_forget(i);
        for (size_t n = 0; n < 2; n++)
                if (placeholder_of(i, n)->state != PLACEHOLDER_STUCK ||
                    placeholder_of(i, n)->os_errno != -EACCES)
                        return 3;
        if (placeholder_sweep(locks, at(rig, "own/w/.git")) != PLACEHOLDER_STUCK)
                return 4;
        placeholders_remove(i, false);
        if (!placeholders_have(i, PLACEHOLDER_STUCK) || chmod(at(rig, "own/w"), 0755) < 0 ||
            !exists(rig, "own/w/f"))
                return 5;
        placeholders_remove(i, false);
        if (placeholders_have(i, PLACEHOLDER_STUCK) || exists(rig, "own/w/.git") || exists(rig, "own/w/f"))
                return 6;
        image_unmap(i);
        return 0;
}

TEST(a_closed_directory_gives_its_placeholders_up_when_it_is_opened)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "own");
        bool is_root = geteuid() == 0;
        ok(chmod(rig.root, 0755) == 0 && (!is_root || chown(at(&rig, "own"), 65534, 65534) == 0));
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0)
                _exit(is_root && setresuid(65534, 65534, 65534) < 0 ? 99 : stuck_run(&rig));
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), 0);
}

TEST(without_a_file_to_count_users_in_nothing_is_made)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        fails(image_with(&rig, NULL, (const char *const[]){ ".git/", NULL }), -ENOLCK, ENTER_NO_OP);
        struct image *i = IMAGE(&rig, ".git/");
        eq_int(unlink(at(&rig, ".state/" PLACEHOLDER_LOCK_FILE)), 0);
        fails(i, -ENOENT, ENTER_NO_OP);
        ok(!exists(&rig, ".git"));
}

/* ---- files of users in the place of a placeholder ---- */

TEST(what_a_user_has_there_refuses_the_placeholder_and_stays)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "directory");
        write_text(&rig, "file", "mine");
        put_file(&rig, "empty");
        put_directory(&rig, "target");
        put_link(&rig, "target", "link");
        put_link(&rig, "nowhere", "dangling");
        eq_int(mkfifo(at(&rig, "fifo"), 0644), 0);
        fails(IMAGE(&rig, "first/", "directory/"), -EEXIST, 1);
        fails(IMAGE(&rig, "first/", "file"), -EEXIST, 1);
        fails(IMAGE(&rig, "first/", "empty"), -EEXIST, 1);
        fails(IMAGE(&rig, "first/", "link/"), -ELOOP, 1);
        fails(IMAGE(&rig, "first/", "dangling"), -ELOOP, 1);
        fails(IMAGE(&rig, "first/", "fifo"), -EEXIST, 1);
        ok(!exists(&rig, "first") && !exists(&rig, "nowhere"));
        static const char *const names[] = { "directory", "file",     "empty", "target",
                                             "link",      "dangling", "fifo" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++)
                ok(exists(&rig, names[n]));
}

TEST(a_placeholder_that_came_to_hold_something_stays)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f");
        make(i);
        eq_int(chmod(at(&rig, ".git"), 0755), 0);
        eq_int(chmod(at(&rig, "f"), 0644), 0);
        write_text(&rig, ".git/HEAD", "ref");
        write_text(&rig, "f", "mine");
        end(i);
        ok(exists(&rig, ".git/HEAD") && exists(&rig, "f"));
}

TEST(what_was_put_in_the_place_of_a_placeholder_stays)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f", "g");
        make(i);
        /* A file with the mode of a placeholder stays as well when it is not the one that was made. */
        put_directory(&rig, "new");
        eq_int(chmod(at(&rig, "new"), S_ISVTX | 0555), 0);
        eq_int(rmdir(at(&rig, ".git")), 0);
        move_to(&rig, "new", ".git");
        put_file(&rig, "saved");
        move_to(&rig, "saved", "f");
        eq_int(unlink(at(&rig, "g")), 0);
        put_link(&rig, "f", "g");
        end(i);
        ok(exists(&rig, ".git") && exists(&rig, "f") && exists(&rig, "g"));
}

TEST(an_empty_placeholder_goes_whatever_its_mode_has_become)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f");
        make(i);
        eq_int(chmod(at(&rig, ".git"), 0755), 0);
        eq_int(chmod(at(&rig, "f"), 0644), 0);
        end(i);
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

/* ---- changes of the directory above ---- */

TEST(a_directory_that_was_exchanged_since_the_plan_gets_no_placeholder)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "w");
        put_directory(&rig, "victim");
        struct image *i = IMAGE(&rig, "w/.git/");
        move_to(&rig, "w", "moved");
        put_directory(&rig, "w");
        fails(i, -ESTALE, 0);

        i = IMAGE(&rig, "w/.git/");
        eq_int(rmdir(at(&rig, "w")), 0);
        fails(i, -ENOENT, 0);

        put_directory(&rig, "w");
        i = IMAGE(&rig, "w/.git/");
        eq_int(rmdir(at(&rig, "w")), 0);
        put_link(&rig, "victim", "w");
        fails(i, -ELOOP, 0);
        ok(!exists(&rig, "victim/.git") && !exists(&rig, "moved/.git") && !exists(&rig, "w/.git"));
}

TEST(a_link_in_the_place_of_the_directory_leads_no_removal_elsewhere)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "w");
        put_directory(&rig, "victim");
        put_directory(&rig, "victim/.git");
        put_file(&rig, "victim/f");
        eq_int(chmod(at(&rig, "victim/.git"), S_ISVTX | 0555), 0);
        eq_int(chmod(at(&rig, "victim/f"), S_ISVTX | 0444), 0);
        for (int has_fds = 0; has_fds <= 1; has_fds++) {
                struct image *i = IMAGE(&rig, "w/.git/", "w/f");
                if (has_fds)
                        make(i);
                else
                        make_and_die(i);
                move_to(&rig, "w", "moved");
                put_link(&rig, "victim", "w");
                placeholders_remove(i, has_fds);
                placeholders_forget(i);
                image_unmap(i);
                ok(exists(&rig, "victim/.git") && exists(&rig, "victim/f"));
                eq_int(unlink(at(&rig, "w")), 0);
                /* A keeper with open descriptors finds the placeholders in the moved directory. */
                eq_int(rmdir(at(&rig, "moved/.git")), has_fds ? -1 : 0);
                eq_int(unlink(at(&rig, "moved/f")), has_fds ? -1 : 0);
                move_to(&rig, "moved", "w");
        }
}

TEST(another_directory_in_its_place_loses_nothing)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "w");
        struct image *i = IMAGE(&rig, "w/.git/", "w/f");
        make(i);
        move_to(&rig, "w", "moved");
        put_directory(&rig, "w");
        put_directory(&rig, "w/.git");
        put_file(&rig, "w/f");
        end(i);
        ok(exists(&rig, "w/.git") && exists(&rig, "w/f"));
}

/* ---- directories that the keeper may not write ---- */

static int make_as_nobody(struct tree_rig *rig)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (setresuid(65534, 65534, 65534) < 0)
                        _exit(99);
                struct enter_failure why;
                struct image *i =
                        image_with(rig, locks_in(rig, "nobody"), (const char *const[]){ "w/.git/", NULL });
                int r = placeholders_make(i, &why);
                if (r == 0 && (!op_of(i, 0)->may_be_missing || placeholder_of(i, 0)->fd >= 0))
                        _exit(98);
                end(i);
                _exit(-r);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(what_the_command_cannot_make_either_needs_no_placeholder)
{
        if (!has_openat2())
                skip();
        if (geteuid() != 0) {
                print_message("skipped: only root can give a directory away\n");
                skip();
        }
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "w");
        put_directory(&rig, "nobody");
        eq_int(chown(at(&rig, "nobody"), 65534, 65534), 0);
        eq_int(chmod(rig.root, 0755), 0);
        eq_int(make_as_nobody(&rig), 0);
        /* A placeholder of another user is there, and the server of that user may remove it at any time. */
        struct image *others = IMAGE(&rig, "w/.git/");
        make(others);
        eq_int(make_as_nobody(&rig), 0);
        end(others);
        ok(!exists(&rig, "w/.git"));
        /* The directory belongs to the command's user, who could make it writable again. */
        eq_int(chmod(at(&rig, "w"), 0555), 0);
        eq_int(chown(at(&rig, "w"), 65534, 65534), 0);
        eq_int(make_as_nobody(&rig), EACCES);
        ok(!exists(&rig, "w/.git"));
}
