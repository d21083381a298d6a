/* err_test: codes and texts of errors, and the names of all errnos. */
#include "base/err.h"

#include "base/utf8.h"
#include "unit.h"

#include <errno.h>

TEST(set_fills_code_and_text_and_returns_the_code)
{
        struct err err = ERR_INIT;

        eq_int(err_set(&err, -7, -EINVAL, "bad %s", "cwd"), -EINVAL);
        eq_int(err.code, -EINVAL);
        eq_int(err.client_code, -7);
        eq_str(err.text, "bad cwd");
}

TEST(set_leaves_the_fields_that_it_does_not_know)
{
        struct err err = { .step = "spawn", .reason = "word", .os_errno = ENOENT };

        (void)err_set(&err, 0, -ENOENT, "text");
        eq_str(err.step, "spawn");
        eq_str(err.reason, "word");
        eq_int(err.os_errno, ENOENT);
}

TEST(wrap_puts_context_in_front_and_keeps_the_code)
{
        struct err err = ERR_INIT;

        (void)err_set(&err, 0, -ENOENT, "open %s", "a.toml");
        eq_int(err_wrap(&err, "config %d", 1), -ENOENT);
        eq_int(err_wrap(&err, "serve"), -ENOENT);
        eq_str(err.text, "serve: config 1: open a.toml");
}

TEST(own_text_may_be_an_argument)
{
        struct err err = ERR_INIT;

        (void)err_set(&err, 0, -EIO, "inner");
        (void)err_set(&err, 0, -EIO, "outer (%s)", err.text);
        eq_str(err.text, "outer (inner)");
        (void)err_wrap(&err, "again %s", err.text);
        eq_str(err.text, "again outer (inner): outer (inner)");
}

TEST(long_texts_are_cut_between_characters)
{
        static char text[ERR_TEXT_BYTES * 2 + 1];
        static const char *const characters[] = { "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

        for (size_t c = 0; c < ARRAY_LEN(characters); c++) {
                size_t width = strlen(characters[c]);
                for (size_t i = 0; i + width < sizeof(text); i += width)
                        memcpy(text + i, characters[c], width + 1);

                for (int shift = 0; shift < 4; shift++) {
                        struct err err = ERR_INIT;

                        (void)err_set(&err, 0, -EIO, "%.*s%s", shift, "....", text);
                        ok(strlen(err.text) > ERR_TEXT_BYTES - 1 - width);
                        ok(utf8_is_valid(slice_from_str(err.text)));
                        (void)err_wrap(&err, "x");
                        ok(utf8_is_valid(slice_from_str(err.text)));
                        ok(strncmp(err.text, "x: ", 3) == 0);
                        (void)err_wrap(&err, "%s", text);
                        ok(utf8_is_valid(slice_from_str(err.text)));
                        ok(strlen(err.text) > ERR_TEXT_BYTES - 4 - width);
                }
        }
}

TEST(bytes_that_are_no_text_survive_the_cut)
{
        static char text[ERR_TEXT_BYTES * 2];
        struct err err = ERR_INIT;

        memset(text, 0x80, sizeof(text) - 1);
        (void)err_set(&err, 0, -EIO, "%s", text);
        ok(strlen(err.text) >= ERR_TEXT_BYTES - 4);
}

TEST(every_errno_of_linux_has_a_name_and_a_text)
{
        for (int e = 1; e <= EHWPOISON; e++) {
                if (e == 41 || e == 58) /* not used: EWOULDBLOCK and EDEADLOCK are aliases on Linux */
                        continue;
                eq_str(errno_name(e), strerrorname_np(e));
                eq_str(errno_name(-e), strerrorname_np(e));
                ok(strlen(errno_text(e)) > 0);
                ok(strcmp(errno_text(e), "No error information") != 0);
                ok(errno_text(e) == errno_text(-e));
        }
}

TEST(unknown_numbers_have_a_name_too)
{
        eq_str(errno_name(0), "E0");
        eq_str(errno_name(41), "E41");
        eq_str(errno_name(4095), "E4095");
        eq_str(errno_name(-4095), "E4095");
        eq_str(errno_name(INT32_MIN), "E2147483648");
        eq_str(errno_text(0), "No error information");
        eq_str(errno_text(4095), "No error information");
        eq_str(errno_text(INT32_MIN), "No error information");
}

TEST(texts_are_those_that_clients_know)
{
        static const struct {
                int number;
                const char *text;
        } cases[] = {
                { ENOENT, "No such file or directory" },
                { EACCES, "Permission denied" },
                { EIO, "I/O error" },
                { ELOOP, "Symbolic link loop" },
                { ENOTDIR, "Not a directory" },
                { EISDIR, "Is a directory" },
                { ENOTEMPTY, "Directory not empty" },
                { EROFS, "Read-only file system" },
                { ENOEXEC, "Exec format error" },
                { EEXIST, "File exists" },
                { E2BIG, "Argument list too long" },
                { EAGAIN, "Resource temporarily unavailable" },
                { ENOMEM, "Out of memory" },
                { EMFILE, "No file descriptors available" },
                { ENFILE, "Too many open files in system" },
                { ETXTBSY, "Text file busy" },
                { EBADF, "Bad file descriptor" },
                { EINVAL, "Invalid argument" },
                { EPERM, "Operation not permitted" },
                { ENAMETOOLONG, "Filename too long" },
                { ENOSPC, "No space left on device" },
                { ENOSYS, "Function not implemented" },
                { EOPNOTSUPP, "Not supported" },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                eq_str(errno_text(cases[i].number), cases[i].text);
}
