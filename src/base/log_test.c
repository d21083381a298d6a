/* log_test: the form of log lines, whatever their values hold. */
#include "base/log.h"

#include "base/fd.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char captured[1 << 16];
static int capture_file = -1, saved_stderr = -1;

static void capture_begin(enum log_level level, enum log_format format)
{
        log_set_level(level);
        log_set_format(format);
        capture_file = memfd_create("log_test", MFD_CLOEXEC);
        saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        ok(capture_file >= 0 && saved_stderr >= 0);
        dup2(capture_file, STDERR_FILENO);
}

/* Puts stderr back; `captured` is what was logged. */
static void capture_end(void)
{
        dup2(saved_stderr, STDERR_FILENO);
        saved_stderr = fd_close(saved_stderr);
        ssize_t n = pread(capture_file, captured, sizeof(captured) - 1, 0);
        capture_file = fd_close(capture_file);
        ok(n >= 0);
        captured[n] = '\0';
        log_set_level(LOG_INFO);
        log_set_format(LOG_TEXT);
}

/* Checks `2026-01-31T12:00:00.000Z` and returns what follows. */
static const char *after_time(const char *p)
{
        static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";

        for (size_t i = 0; i < sizeof(form) - 1; i++)
                ok(form[i] == 'd' ? p[i] >= '0' && p[i] <= '9' : p[i] == form[i]);
        return p + sizeof(form) - 1;
}

/* Checks that a JSON line has the form that we write, an object of strings and integers, and returns what follows its time. */
static const char *after_json_time(const char *line)
{
        const char *p = line;

        ok(*p++ == '{');
        for (bool key = true;; key = !key) {
                if (!key && *p != '"') {
                        p += *p == '-';
                        ok(*p >= '0' && *p <= '9');
                        while (*p >= '0' && *p <= '9')
                                p++;
                        if (*p++ != ',')
                                break;
                        continue;
                }
                ok(*p++ == '"');
                while (*p != '"') {
                        ok(*p >= ' ' && *p <= '~');
                        if (*p++ == '\\')
                                ok(*p == '"' || *p == '\\'), p++;
                }
                p++;
                if (key)
                        ok(*p++ == ':');
                else if (*p++ != ',')
                        break;
        }
        ok(p[-1] == '}' && p[0] == '\n' && p[1] == '\0');

        ok(slice_starts(slice_from_str(line), S("{\"time\":\"")));
        return after_time(line + strlen("{\"time\":\""));
}

TEST(text_line_has_time_level_event_and_pairs)
{
        capture_begin(LOG_INFO, LOG_TEXT);
        log_info("process exited", "session=%s proc=%s code=%d", "s1", "p1", 3);
        capture_end();
        eq_str(after_time(captured), " info process exited session=s1 proc=p1 code=3\n");
}

TEST(event_without_details_is_a_line)
{
        capture_begin(LOG_INFO, LOG_TEXT);
        log_info("started");
        capture_end();
        eq_str(after_time(captured), " info started\n");

        capture_begin(LOG_INFO, LOG_JSON);
        log_warn("started");
        capture_end();
        eq_str(after_json_time(captured), "\",\"level\":\"warn\",\"event\":\"started\"}\n");
}

TEST(json_line_has_the_pairs_as_members)
{
        capture_begin(LOG_INFO, LOG_JSON);
        log_info("process exited", "session=%s code=%d empty= eq=a=b", "s1", 3);
        capture_end();
        eq_str(after_json_time(captured), "\",\"level\":\"info\",\"event\":\"process exited\","
                                          "\"session\":\"s1\",\"code\":3,\"empty\":\"\",\"eq\":\"a=b\"}\n");
}

TEST(error_forms_append_the_name_of_the_error)
{
        capture_begin(LOG_INFO, LOG_TEXT);
        log_error_r(-ENOENT, "open failed", "path=%s", "/x");
        capture_end();
        eq_str(after_time(captured), " error open failed path=/x error=ENOENT\n");

        capture_begin(LOG_INFO, LOG_JSON);
        log_warn_r(-EPERM, "refused");
        capture_end();
        eq_str(after_json_time(captured),
               "\",\"level\":\"warn\",\"event\":\"refused\",\"error\":\"EPERM\"}\n");
}

TEST(levels_below_the_chosen_one_are_silent)
{
        capture_begin(LOG_WARN, LOG_TEXT);
        ok(!log_wants(LOG_DEBUG) && !log_wants(LOG_INFO) && log_wants(LOG_WARN) && log_wants(LOG_ERROR));
        log_info("no");
        log_event(LOG_INFO, 0, "no", " ");
        log_set_level(LOG_OFF);
        ok(!log_wants(LOG_ERROR) && !log_wants(LOG_OFF));
        log_error("no");
        capture_end();
        eq_str(captured, "");
}

TEST(values_that_were_not_quoted_cannot_break_the_line)
{
        capture_begin(LOG_INFO, LOG_TEXT);
        log_info("e", "a=%s b=1", "x\ny\x1b[0m\xff");
        capture_end();
        eq_str(after_time(captured), " info e a=\"x\\x0ay\\x1b[0m\\xff\" b=1\n");

        capture_begin(LOG_INFO, LOG_JSON);
        log_info("e \"q\"", "a=%s b=1", "x\ny\"\\\xff");
        capture_end();
        eq_str(after_json_time(captured), "\",\"level\":\"info\",\"event\":\"e \\\"q\\\"\","
                                          "\"a\":\"x\\\\x0ay\\\"\\\\\\\\xff\",\"b\":1}\n");
}

TEST(words_without_a_key_belong_to_the_value_before)
{
        capture_begin(LOG_INFO, LOG_JSON);
        log_info("e", "%s", "lost words a=two  words =x b=1 ");
        capture_end();
        eq_str(after_json_time(captured), "\",\"level\":\"info\",\"event\":\"e\",\"detail\":\"lost words\","
                                          "\"a\":\"two  words =x\",\"b\":1}\n");
}

TEST(json_is_valid_for_any_bytes)
{
        uint64_t seed = 1;

        for (size_t round = 0; round < 300; round++) {
                char bytes[400];
                for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
                        seed = seed * 6364136223846793005u + 1442695040888963407u;
                        uint32_t x = (uint32_t)(seed >> 33);
                        bytes[i] = x % 4 == 0 ? " =\"\\"[x / 4 % 4] : (char)(x / 4 % 255 + 1);
                }
                bytes[sizeof(bytes) - 1] = '\0';
                capture_begin(LOG_INFO, LOG_JSON);
                log_info("random", "%s", bytes);
                capture_end();
                (void)after_json_time(captured);
        }
}

TEST(long_details_are_cut_and_the_line_stays_whole)
{
        static char text[20000];

        for (size_t n = 2900; n < 3200; n += 7) {
                memset(text, '\n', n);
                text[n] = '\0';
                capture_begin(LOG_INFO, LOG_JSON);
                log_error_r(-EIO, "long", "a=1 b=%s c=2", text);
                capture_end();
                (void)after_json_time(captured);
                ok(strlen(captured) <= 4096);
                ok(strstr(captured, ",\"a\":1") != NULL);
                ok(strstr(captured, ",\"error\":\"EIO\"}") != NULL);
        }

        memset(text, 'x', sizeof(text) - 1);
        capture_begin(LOG_INFO, LOG_TEXT);
        log_error_r(-EIO, "long", "b=%s", text);
        capture_end();
        ok(strstr(captured, "xxx error=EIO\n") != NULL);
}

TEST(logging_keeps_errno_and_survives_a_closed_stderr)
{
        capture_begin(LOG_INFO, LOG_TEXT);
        close(STDERR_FILENO);
        errno = ELOOP;
        log_error("nobody hears this");
        eq_int(errno, ELOOP);
        capture_end();
        eq_str(captured, "");
}

/* Reads what was written to the terminal so far into `captured`, without waiting for more. */
static void capture_terminal(int master)
{
        size_t n = 0;
        for (ssize_t r; n < sizeof(captured) - 1; n += (size_t)r) {
                r = read(master, captured + n, sizeof(captured) - 1 - n);
                if (r <= 0)
                        break;
        }
        captured[n] = '\0';
}

TEST(a_terminal_that_nobody_reads_is_not_waited_for)
{
        _close_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        ok(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
        _close_ int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        _close_ int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        ok(slave >= 0 && saved >= 0);
        dup2(slave, STDERR_FILENO);
        (void)alarm(60); /* ends the test when a log call waits */
        for (int i = 0; i < 2000; i++)
                log_info("e", "n=%d", i);
        capture_terminal(master);
        ok(strstr(captured, "info e n=0\r\n") && !strstr(captured, "n=1999"));
        /* The terminal has room again a moment after it was read; how long that takes is up to a thread of the kernel. */
        bool is_told = false, is_lost = false;
        for (int i = 0; i < 5000 && !(is_told && is_lost); i++) {
                log_info("later", "n=%d", i);
                (void)poll(NULL, 0, 1);
                capture_terminal(master);
                is_told |= strstr(captured, "info later") != NULL;
                is_lost |= strstr(captured, "log lines lost count=") != NULL;
        }
        (void)alarm(0);
        dup2(saved, STDERR_FILENO);
        ok(is_told && is_lost);
}

TEST(names_of_levels_and_formats_are_parsed_exactly)
{
        enum log_level level = LOG_OFF;
        enum log_format format = LOG_TEXT;

        eq_int(log_level_parse(S("debug"), &level), 0);
        eq_int(level, LOG_DEBUG);
        eq_int(log_level_parse(S("off"), &level), 0);
        eq_int(level, LOG_OFF);
        eq_int(log_level_parse(S("INFO"), &level), -EINVAL);
        eq_int(log_level_parse(S(""), &level), -EINVAL);
        eq_int(log_level_parse(S("warning"), &level), -EINVAL);
        eq_int(level, LOG_OFF);
        eq_int(log_format_parse(S("json"), &format), 0);
        eq_int(format, LOG_JSON);
        eq_int(log_format_parse(S("xml"), &format), -EINVAL);
}

TEST(quoted_text_is_printable_and_ends_at_its_second_quote)
{
        eq_str(log_quote(S("/usr/bin/env=1,~!")), "\"/usr/bin/env=1,~!\"");
        eq_str(log_quote(S("a b\t\"'`\\")), "\"a b\\x09\\\"'`\\\\\"");
        eq_str(log_quote(S("\0\x7f\xc3\xa4")), "\"\\x00\\x7f\\xc3\\xa4\"");
        eq_str(log_quote((struct slice){ 0 }), "\"\"");
}

TEST(escaped_text_is_one_printable_word)
{
        eq_str(log_escape(S("/usr/bin/env=1,~!")), "/usr/bin/env=1,~!");
        eq_str(log_escape(S("a b\t\"'`\\")), "a\\x20b\\x09\\x22\\x27\\x60\\x5c");
        eq_str(log_escape(S("\0\x7f\xc3\xa4")), "\\x00\\x7f\\xc3\\xa4");
        eq_str(log_escape((struct slice){ 0 }), "");
}

TEST(a_value_with_blanks_is_quoted_in_text)
{
        capture_begin(LOG_INFO, LOG_TEXT);
        log_info("e", "a=%s b=%s c=%s d=%s e=no state directory f=%d", log_quote(S("two words")),
                 log_quote(S("word")), log_quote(S("x\" user=root \\")), log_quote(S("12")), 7);
        capture_end();
        eq_str(after_time(captured), " info e a=\"two words\" b=word c=\"x\\\" user=root \\\\\" d=12 "
                                     "e=\"no state directory\" f=7\n");
}

TEST(integers_are_numbers_in_json_and_quoted_values_are_strings)
{
        capture_begin(LOG_INFO, LOG_JSON);
        log_info("e", "a=%d b=%s c=%s d=007 e=- f=0 g=1234567890123456 h=0x1f", -12, log_quote(S("12")),
                 log_quote(S("x\" user=root \\ \n")));
        capture_end();
        eq_str(after_json_time(captured),
               "\",\"level\":\"info\",\"event\":\"e\",\"a\":-12,\"b\":\"12\",\"c\":\"x\\\" user=root "
               "\\\\\\\\ "
               "\\\\x0a\",\"d\":\"007\",\"e\":\"-\",\"f\":0,\"g\":\"1234567890123456\",\"h\":\"0x1f\"}\n");
}

TEST(quoted_text_is_cut_between_escapes)
{
        char text[300];

        memset(text, 'a', sizeof(text));
        eq_u64(strlen(log_quote(slice_from(text, 300))), 202);
        eq_u64(strlen(log_quote(slice_from(text, 200))), 202);
        text[198] = '\n';
        eq_u64(strlen(log_quote(slice_from(text, 300))), 200);
        text[198] = 'a';
        text[196] = '\n';
        eq_u64(strlen(log_quote(slice_from(text, 300))), 202);
}

TEST(eight_quoted_texts_live_at_once)
{
        const char *quoted[8];

        for (size_t i = 0; i < 8; i++)
                quoted[i] = log_quote(slice_from(&"abcdefgh"[i], 1));
        for (size_t i = 0; i < 8; i++)
                eq_int(quoted[i][1], "abcdefgh"[i]);
}
