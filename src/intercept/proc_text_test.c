/* Tests of what is read in the texts of /proc. */
#include "intercept/proc_text.h"

#include "unit.h"

#include <elf.h>
#include <errno.h>

#define STATUS                                                                                     \
        "Name:\tTgid: 1\\nTgid:\\t7\nUmask:\t0027\nState:\tS "                                     \
        "(sleeping)\nTgid:\t12\nNgid:\t0\nPid:\t13\nPPid:\t11\n"                                   \
        "TracerPid:\t0\nUid:\t0\t0\t0\t0\nThreads:\t2\nSigQ:\t0/15\nSigPnd:\t0000000000000000\n"   \
        "ShdPnd:\t0000000000000002\nSigBlk:\t0000000000010000\nSigIgn:\t8000000000000004\nSigCgt:" \
        "\t00000001ffffffff\n"

TEST(a_status_is_read_and_a_name_cannot_take_part)
{
        struct proc_status s;
        eq_int(proc_status_parse(S(STATUS), &s), 0);
        eq_int(s.process, 12);
        eq_int(s.parent, 11);
        eq_int(s.tracer, 0);
        eq_int(s.threads, 2);
        eq_int(s.umask, 027);
        eq_int(s.state, 'S');
        eq_u64(s.pending, 2);
        eq_u64(s.blocked, 0x10000);
        eq_u64(s.ignored, 0x8000000000000004);
        eq_u64(s.caught, 0x1ffffffff);
}

TEST(a_status_that_is_cut_is_refused)
{
        struct slice all = S(STATUS);
        struct proc_status s;
        size_t last = (size_t)(strstr(all.p, "SigCgt") - all.p) + sizeof("SigCgt:\t") - 1;
        for (size_t n = 0; n <= last; n++)
                eq_int(proc_status_parse(slice_from(all.p, n), &s), -EBADMSG);
}

TEST(a_status_with_a_bad_number_is_refused)
{
        static const struct {
                const char *from, *to;
        } changes[] = { { "Tgid:\t12", "Tgid:\t0x" },
                        { "Tgid:\t12", "Tgid:\t-1" },
                        { "PPid:\t11", "PPid:\t  " },
                        { "Umask:\t0027", "Umask:\t0028" },
                        { "Threads:\t2", "Threads:\t0" } };
        for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
                char text[] = STATUS;
                struct proc_status s;
                /* The name holds such a text too; the line is the last one of them. */
                char *at = NULL;
                for (char *next = text; (next = strstr(next, changes[i].from)); next++)
                        at = next;
                memcpy(at, changes[i].to, strlen(changes[i].to));
                eq_int(proc_status_parse(slice_from_str(text), &s), -EBADMSG);
        }
}

TEST(the_flags_of_a_descriptor_are_octal)
{
        uint32_t flags = 0;
        eq_int(proc_fdinfo_parse(S("pos:\t0\nflags:\t02100002\nmnt_id:\t9\n"), &flags), 0);
        eq_int(flags, 02100002);
        eq_int(proc_fdinfo_parse(S("pos:\t0\n"), &flags), -EBADMSG);
        eq_int(proc_fdinfo_parse(S("flags:\t9\n"), &flags), -EBADMSG);
        eq_int(proc_fdinfo_parse(S("flags:\t"), &flags), -EBADMSG);
}

TEST(an_entry_of_the_auxiliary_vector_is_found_before_its_end)
{
        const uint64_t pairs[] = { AT_PAGESZ, 4096, AT_EXECFN, 77, AT_NULL, 0, AT_BASE, 5 };
        uint64_t value = 0;
        eq_int(proc_auxv_find(slice_from(pairs, sizeof(pairs)), AT_EXECFN, &value), 0);
        eq_u64(value, 77);
        eq_int(proc_auxv_find(slice_from(pairs, sizeof(pairs)), AT_BASE, &value), -ENOENT);
        eq_int(proc_auxv_find(slice_from(pairs, 24), AT_EXECFN, &value), -EBADMSG);
}

TEST(a_process_waits_for_a_child_of_vfork_in_three_calls_only)
{
        ok(proc_syscall_is_vfork(S("435 0x7ffd 0x58 0x0 0x0 0x0 0x0 0x7ffd 0x7f\n")));
#if defined(__x86_64__)
        ok(proc_syscall_is_vfork(S("58 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f\n")));
        ok(proc_syscall_is_vfork(S("56 0x4111 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f\n")));
        ok(!proc_syscall_is_vfork(S("56 0x1200011 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f\n")));
        ok(!proc_syscall_is_vfork(S("56 0x\n")));
        ok(!proc_syscall_is_vfork(S("56")));
        ok(!proc_syscall_is_vfork(S("61 0x4111 0x0\n")));
#endif
        ok(!proc_syscall_is_vfork(S("running\n")));
        ok(!proc_syscall_is_vfork(S("-1 0x7ffd 0x7f\n")));
        ok(!proc_syscall_is_vfork(S("")));
}

TEST(the_status_of_a_dead_process_is_the_52nd_field)
{
        int status = 0;
#define TO_50 \
        " 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8"
        eq_int(proc_stat_parse_exit(S("9 (a) Z 1) Z" TO_50 " 256\n"), &status), 0);
        eq_int(status, 256);
        eq_int(proc_stat_parse_exit(S("9 (a) S" TO_50 " 256\n"), &status), -EBADMSG);
        eq_int(proc_stat_parse_exit(S("9 (a) Z" TO_50 "\n"), &status), -EBADMSG);
        eq_int(proc_stat_parse_exit(S("9 (a"), &status), -EBADMSG);
        eq_int(proc_stat_parse_exit(S(""), &status), -EBADMSG);
}
