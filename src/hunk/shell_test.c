/* shell_test: which commands are a call of apply_patch, and which only look like one. */
#include "hunk/shell.h"

#include "unit.h"

#define PATCH "*** Begin Patch\n*** Add File: n\n+x $y `z` \\\n*** End Patch\n"

TEST(a_script_that_is_only_the_call_is_recognised)
{
        static const struct {
                const char *script, *workdir;
        } cases[] = {
                { "apply_patch <<'EOF'\n" PATCH "EOF\n", NULL },
                { "applypatch <<'EOF'\n" PATCH "EOF", NULL },
                { "apply_patch <<EOF\n" PATCH "EOF\n", NULL },
                { "apply_patch <<\"EOF\"\n" PATCH "EOF\n", NULL },
                { "apply_patch <<\\EOF\n" PATCH "EOF\n", NULL },
                { " \n\tapply_patch  <<  'END_OF-it.1'  \n" PATCH "END_OF-it.1\n \n\t", NULL },
                { "apply_patch<<'E O F'\n" PATCH "E O F\n", NULL },
                { "cd src/a && apply_patch <<'EOF'\n" PATCH "EOF\n", "src/a" },
                { "cd 'a b' &&\n apply_patch <<'EOF'\n" PATCH "EOF\n", "a b" },
                { "cd \"/a b's\"&&apply_patch <<'EOF'\n" PATCH "EOF\n", "/a b's" },
                { "cd gr\xc3\xbc\xc3\x9f && apply_patch <<'EOF'\n" PATCH "EOF\n", "gr\xc3\xbc\xc3\x9f" },
                { "cd .. && apply_patch <<'EOF'\n" PATCH "EOF\n", ".." },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct shell_call call;
                struct slice argv[] = { S("/usr/bin/bash"), S("-lc"), slice_from_str(cases[i].script) };
                eq_int(shell_find_patch(&a, argv, 3, &call), SHELL_PATCH_CALL);
                eq_slice(call.patch, S(PATCH));
                eq_slice(call.workdir, slice_from_str(cases[i].workdir));
                ok(!call.workdir.p == !cases[i].workdir);
        }
}

TEST(every_truncation_of_a_script_is_an_ordinary_command)
{
        struct slice whole = S("cd 'a' && apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF");

        for (size_t n = 0; n < whole.n; n++) {
                _arena_ struct arena a = ARENA_INIT;
                struct shell_call call;
                eq_int(shell_find_patch_in_script(&a, slice_from(whole.p, n), &call), SHELL_PATCH_NONE);
        }
}

TEST(anything_before_beside_or_behind_the_call_makes_it_an_ordinary_command)
{
        static const char *const scripts[] = {
                "",
                "apply_patch",
                "apply_patch 'x'",
                "echo a; apply_patch <<'EOF'\n" PATCH "EOF\n",
                "# note\napply_patch <<'EOF'\n" PATCH "EOF\n",
                "X=1 apply_patch <<'EOF'\n" PATCH "EOF\n",
                "apply_patch - <<'EOF'\n" PATCH "EOF\n",
                "apply_patch <<'EOF' && ls\n" PATCH "EOF\n",
                "apply_patch <<'EOF' >log\n" PATCH "EOF\n",
                "apply_patch <<'EOF' # note\n" PATCH "EOF\n",
                "apply_patch <<'EOF'\n" PATCH "EOF\nls\n",
                "apply_patch <<'EOF'\n" PATCH "EOF;\n",
                "apply_patch <<'EOF'\n" PATCH "EOF \n",
                "apply_patch <<'EOF'\n" PATCH " EOF\n",
                "apply_patch <<'EOF'\n" PATCH "END\n",
                "apply_patch <<-'EOF'\n" PATCH "EOF\n",
                "apply_patch <<<'EOF'\n" PATCH "EOF\n",
                "apply_patch <<E'O'F\n" PATCH "EOF\n",
                "apply_patch <<'E'OF\n" PATCH "EOF\n",
                "apply_patch <<\\'EOF'\n" PATCH "EOF\n",
                "apply_patch <<$EOF\n" PATCH "EOF\n",
                "apply_patch <<\"$EOF\"\n" PATCH "EOF\n",
                "apply_patch <<''\n" PATCH "\n",
                "apply_patch <<'EOF'\r\n" PATCH "EOF\r\n",
                "apply_patchx <<'EOF'\n" PATCH "EOF\n",
                "(apply_patch <<'EOF'\n" PATCH "EOF\n)",
                "cd a; apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd a || apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd a b && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd '' && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd - && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd -P a && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd ~ && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd $HOME && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd \"$HOME\" && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd \"a`b`\" && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd 'a'b && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd a\\ b && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd a* && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cd a && cd b && apply_patch <<'EOF'\n" PATCH "EOF\n",
                "cda && apply_patch <<'EOF'\n" PATCH "EOF\n",
        };

        for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct shell_call call;
                if (shell_find_patch_in_script(&a, slice_from_str(scripts[i]), &call) != SHELL_PATCH_NONE)
                        fail_msg("%s", scripts[i]);
        }
}

TEST(arguments_are_recognised_as_a_whole)
{
        static const struct {
                const char *argv[4];
                enum shell_patch result;
        } cases[] = {
                { { "apply_patch", PATCH }, SHELL_PATCH_CALL },
                { { "applypatch", "anything" }, SHELL_PATCH_CALL },
                { { "/bin/apply_patch", PATCH }, SHELL_PATCH_NONE },
                { { "apply_patch" }, SHELL_PATCH_NONE },
                { { "apply_patch", PATCH, "x" }, SHELL_PATCH_NONE },
                { { "zsh", "-c", "apply_patch <<E\n" PATCH "E" }, SHELL_PATCH_CALL },
                { { "/bin/sh", "-lc", "apply_patch <<E\n" PATCH "E" }, SHELL_PATCH_CALL },
                { { "bash", "-x", "apply_patch <<E\n" PATCH "E" }, SHELL_PATCH_NONE },
                { { "fish", "-c", "apply_patch <<E\n" PATCH "E" }, SHELL_PATCH_NONE },
                { { "bash", "-c", "apply_patch <<E\n" PATCH "E", "x" }, SHELL_PATCH_NONE },
                { { PATCH }, SHELL_PATCH_NAKED },
                { { "bash", "-lc", PATCH }, SHELL_PATCH_NAKED },
                { { "bash", "-lc", "<<EOF\n" PATCH "EOF\n" }, SHELL_PATCH_NAKED },
                { { "*** Begin Patch" }, SHELL_PATCH_NONE },
                { { "ls", PATCH }, SHELL_PATCH_NONE },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct shell_call call;
                struct slice argv[4];
                size_t argc = 0;
                for (; argc < 4 && cases[i].argv[argc]; argc++)
                        argv[argc] = slice_from_str(cases[i].argv[argc]);
                eq_int(shell_find_patch(&a, argv, argc, &call), cases[i].result);
        }
        eq_str(SHELL_PATCH_NAKED_TEXT, "patch detected without explicit call to apply_patch. Rerun as "
                                       "[\"apply_patch\", \"<patch>\"]");
}
