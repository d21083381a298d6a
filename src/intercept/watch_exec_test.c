/* Tests of the comparison behind a watched execve. */
#include "intercept/watch_exec.h"

#include "unit.h"

static bool is_same(struct slice path, struct slice argv, size_t argc, const struct watch_found *found)
{
        struct watch_exec w = { .path = { .p = (char *)(uintptr_t)path.p, .n = path.n },
                                .argv_text = { .p = (char *)(uintptr_t)argv.p, .n = argv.n },
                                .argc = argc };
        return watch_is_same(&w, found);
}

#define FOUND(is_file, path_text, argv) \
        (&(struct watch_found){ .path = S(path_text), .argv_text = S(argv), .is_same_file = (is_file) })

TEST(a_program_must_be_the_decided_one_with_the_decided_arguments)
{
        struct slice path = S("/bin/x\0"), argv = S("x\0a\0");
        ok(is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0a\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/y", "x\0a\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0b\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0a\0b\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0")));
        ok(!is_same(path, argv, 2, FOUND(false, "/bin/x", "x\0a\0")));
        ok(is_same(path, S(""), 0, FOUND(true, "/bin/x", "\0")));
        ok(!is_same(path, S(""), 0, FOUND(true, "/bin/x", "a\0")));
}

TEST(a_script_gets_its_path_once_and_the_decided_arguments_behind_it)
{
        struct slice path = S("/s\0"), argv = S("name\0a\0b\0");
        ok(is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/s\0a\0b\0")));
        ok(is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0-e\0/s\0a\0b\0")));
        ok(is_same(path, S("n\0"), 1, FOUND(false, "/s", "/bin/sh\0/s\0")));
        ok(is_same(path, S(""), 0, FOUND(false, "/s", "/bin/sh\0/s\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/s\0a\0c\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/s\0/s\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/t\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/t", "/bin/sh\0/s\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/s\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "")));
}
