/* exec_heuristic_test: what is asked about although no rule matches. */
#include "rules/exec_heuristic.h"

#include "rules/shell_words.h"

#include "unit.h"

static enum exec_decision decide(const char *line)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice *words;
        size_t count;

        assert_int_equal(shell_words_split(&a, slice_from_str(line), &words, &count), 0);
        return exec_heuristic_decide(words, count);
}

#define ASKS(line) eq_int(decide(line), EXEC_PROMPT)
#define RUNS(line) eq_int(decide(line), EXEC_ALLOW)

TEST(rm_with_a_force_option_is_asked_about)
{
        ASKS("rm -f x");
        ASKS("rm -rf x");
        ASKS("rm -fr x");
        ASKS("rm -r -f x");
        ASKS("rm --force x");
        ASKS("rm x -f");
        ASKS("/bin/rm -f x");
        ASKS("./rm -f x");
}

TEST(rm_without_force_runs)
{
        RUNS("rm x");
        RUNS("rm -r x");
        RUNS("rm -- -f");
        RUNS("rm --verbose-f x");
        RUNS("rm f");
        RUNS("rmdir -f x");
        RUNS("rm");
        RUNS("''");
        RUNS("");
}

TEST(other_commands_that_change_things_run)
{
        RUNS("git reset --hard");
        RUNS("git rm -f x");
        RUNS("git push --force");
        RUNS("git clean -fdx");
        RUNS("mkfs -f /dev/sda");
        RUNS("echo rm -rf x");
}

TEST(sudo_is_seen_through)
{
        ASKS("sudo rm -rf x");
        ASKS("/usr/bin/sudo rm -f x");
        ASKS("sudo -n rm -f x");
        ASKS("sudo -u root rm -f x");
        ASKS("sudo -- rm -f x");
        ASKS("sudo X=1 rm -f x");
        RUNS("sudo rm x");
        RUNS("sudo -u rm -f x");
        RUNS("sudo");
        RUNS("sudo -u");
}

TEST(env_is_seen_through)
{
        ASKS("env rm -f x");
        ASKS("env A=b C=d rm -f x");
        ASKS("env -i rm -f x");
        ASKS("env --ignore-environment A=b rm -f x");
        ASKS("env -u A rm -f x");
        ASKS("env -- rm -f x");
        ASKS("sudo env rm -f x");
        RUNS("env A=b rm -r x");
        RUNS("env rm=x -f");
        RUNS("env");
        RUNS("env --");
}

TEST(the_action_of_trap_is_seen)
{
        ASKS("trap 'rm -rf x' EXIT");
        ASKS("trap -- 'rm -rf x' EXIT");
        ASKS("trap 'a; rm -rf x' EXIT");
        ASKS("bash -c \"trap 'rm -rf x' EXIT\"");
        RUNS("trap 'echo rm -rf x' EXIT");
        RUNS("trap -p EXIT");
        RUNS("trap");
        RUNS("trap --");
}

TEST(the_text_of_a_shell_is_seen)
{
        ASKS("bash -lc 'rm -rf x'");
        ASKS("sh -c 'rm -rf x'");
        ASKS("zsh -c 'rm -rf x'");
        ASKS("/bin/sh -c 'rm -rf x'");
        ASKS("sh -ec 'rm -rf x' name arg");
        ASKS("bash -o pipefail -e -c 'rm -rf x'");
        ASKS("bash -c -- 'rm -rf x'");
        RUNS("sh 'rm -rf x'");
        RUNS("sh -c");
        RUNS("sh script rm -f x");
        RUNS("fish -c 'rm -rf x'");
        RUNS("sh -c 'rm -r x'");
}

TEST(commands_inside_of_shell_syntax_are_seen)
{
        ASKS("bash -c 'a | rm -rf x'");
        ASKS("bash -c 'if a; then rm --force x; fi'");
        ASKS("bash -c 'rm -rf \"$TARGET\" >/dev/null'");
        ASKS("bash -c 'for t in a b; do rm -r -f \"$t\"; done'");
        ASKS("bash -c 'echo \"$(rm -rf x)\"'");
        ASKS("bash -c 'echo `rm -rf x`'");
        ASKS("bash -c '(cd a && rm -rf x)'");
        ASKS("bash -c 'f() { rm -rf x; }; f'");
        ASKS("bash -c 'A=b rm -rf x &'");
        ASKS("bash -c 'sudo env A=b rm -rf x'");
        ASKS("bash -c \"sh -c 'rm -rf x'\"");
        ASKS("bash -c '\\rm -rf x'");
        RUNS("bash -c \"echo 'rm -rf x'\"");
        RUNS("bash -c 'c=rm; $c -rf x'");
        RUNS("bash -c 'a # rm -rf x'");
        RUNS("bash -c 'cat <<E\nrm -rf x\nE\n'");
}

TEST(eight_wrappers_are_seen_through_and_more_are_asked_about)
{
        ASKS("env env env env env env env env rm -f x");
        RUNS("env env env env env env env env rm x");
        ASKS("env env env env env env env env env ls");
        ASKS("sudo env sudo env sudo env sudo env sudo ls");
        RUNS("sudo env sudo env sudo env sudo env ls");
        RUNS("sudo sudo sudo sudo sudo sudo sudo sh -c ls");
        ASKS("sudo sudo sudo sudo sudo sudo sudo sudo sh -c ls");
}
