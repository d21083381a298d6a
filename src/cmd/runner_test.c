/* runner_test: which paths are tried for the name of a program. */
#include "cmd/runner.h"

#include "base/buf.h"
#include "unit.h"

static void tries(const char *program, const char *path, const char *want)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf got = BUF_INIT(1024);
        for (const char **at = runner_candidates(&a, program, path); *at; at++)
                ok(buf_printf(&got, "%s ", *at) == 0);
        eq_slice(buf_slice(&got), slice_from_str(want));
}

TEST(a_name_is_looked_for_in_each_directory_of_the_path)
{
        tries("true", "/usr/bin:/bin", "/usr/bin/true /bin/true ");
        tries("true", "/bin", "/bin/true ");
}

TEST(an_empty_entry_of_the_path_is_the_working_directory)
{
        tries("true", "/bin:", "/bin/true ./true ");
        tries("true", ":/bin", "./true /bin/true ");
        tries("true", "", "./true ");
}

TEST(a_name_with_a_slash_is_tried_as_it_is)
{
        tries("./true", "/usr/bin:/bin", "./true ");
        tries("/bin/true", "/usr/bin", "/bin/true ");
}

TEST(an_empty_name_is_tried_alone)
{
        tries("", "/usr/bin:/bin", " ");
}
