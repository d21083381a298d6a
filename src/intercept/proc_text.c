/* proc_text: reads the texts of /proc/PID (proc_text.h). The kernel writes a line feed in a name as "\n", so that each line that begins with
 * a key is one of the kernel's. */
#include "intercept/proc_text.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>

/* Reads digits of the base, up to the end of the line or a blank. */
static bool number_read(struct slice s, unsigned base, uint64_t max, uint64_t *ret)
{
        uint64_t value = 0;
        size_t i = 0;
        for (; i < s.n && s.p[i] != ' ' && s.p[i] != '\t'; i++) {
                int digit = ascii_hex_value(s.p[i]);
                if (digit < 0 || (unsigned)digit >= base || ckd_mul(&value, value, base) ||
                    ckd_add(&value, value, (unsigned)digit) || value > max)
                        return false;
        }
        *ret = value;
        return i > 0;
}

/* Returns the value of the line "KEY:\tVALUE" when the line has this key. */
static bool line_has(struct slice line, struct slice key, struct slice *ret)
{
        if (!slice_starts(line, key) || line.n < key.n + 2 || line.p[key.n] != ':')
                return false;
        *ret = slice_trim(slice_from(line.p + key.n + 1, line.n - key.n - 1));
        return true;
}

struct status_line {
        struct slice key;
        unsigned base;
        uint64_t max;
        uint64_t *value;
};

int proc_status_parse(struct slice text, struct proc_status *ret)
{
        uint64_t mask, process, parent, tracer, threads, of_thread, of_process, blocked, ignored, caught;
        const struct status_line lines[] = {
                { S("Umask"), 8, 0777, &mask },
                { S("Tgid"), 10, INT32_MAX, &process },
                { S("PPid"), 10, INT32_MAX, &parent },
                { S("TracerPid"), 10, INT32_MAX, &tracer },
                { S("Threads"), 10, INT32_MAX, &threads },
                { S("SigPnd"), 16, UINT64_MAX, &of_thread },
                { S("ShdPnd"), 16, UINT64_MAX, &of_process },
                { S("SigBlk"), 16, UINT64_MAX, &blocked },
                { S("SigIgn"), 16, UINT64_MAX, &ignored },
                { S("SigCgt"), 16, UINT64_MAX, &caught },
        };
        uint32_t seen = 0;
        char state = 0;
        while (text.n > 0) {
                struct slice line = slice_split(&text, '\n'), value;
                if (!state && line_has(line, S("State"), &value) && value.n > 0)
                        state = value.p[0];
                for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                        if ((seen >> i & 1) || !line_has(line, lines[i].key, &value))
                                continue;
                        if (!number_read(value, lines[i].base, lines[i].max, lines[i].value))
                                return -EBADMSG;
                        seen |= 1U << i;
                }
        }
        if (seen != (1U << ARRAY_LEN(lines)) - 1 || !state || process == 0 || threads == 0)
                return -EBADMSG;
        *ret = (struct proc_status){
                .process = (pid_t)process,
                .parent = (pid_t)parent,
                .tracer = (pid_t)tracer,
                .threads = (uint32_t)threads,
                .umask = (uint32_t)mask,
                .state = state,
                .pending = of_thread | of_process,
                .blocked = blocked,
                .ignored = ignored,
                .caught = caught,
        };
        return 0;
}

int proc_fdinfo_parse(struct slice text, uint32_t *ret_flags)
{
        while (text.n > 0) {
                struct slice line = slice_split(&text, '\n'), value;
                uint64_t flags;
                if (!line_has(line, S("flags"), &value))
                        continue;
                if (!number_read(value, 8, UINT32_MAX, &flags))
                        return -EBADMSG;
                *ret_flags = (uint32_t)flags;
                return 0;
        }
        return -EBADMSG;
}

int proc_auxv_find(struct slice bytes, uint64_t type, uint64_t *ret)
{
        for (uint64_t pair[2]; bytes.n >= sizeof(pair); bytes.p += sizeof(pair), bytes.n -= sizeof(pair)) {
                memcpy(pair, bytes.p, sizeof(pair));
                if (pair[0] == type) {
                        *ret = pair[1];
                        return 0;
                }
                if (pair[0] == AT_NULL)
                        return -ENOENT;
        }
        return -EBADMSG;
}

/* The text is "NR 0xARG0 0xARG1 …", or "running" for a process that is not inside of a system call. clone3 has its flags in memory; a
 * process sleeps in it only for a child that runs in its memory. */
bool proc_syscall_is_vfork(struct slice text)
{
        uint64_t nr, flags;
        struct slice first = slice_split(&text, ' '), second = slice_split(&text, ' ');
        if (!number_read(first, 10, INT32_MAX, &nr))
                return false;
        if (nr == SYS_clone3)
                return true;
#ifdef SYS_vfork
        if (nr == SYS_vfork)
                return true;
#endif
        if (nr != SYS_clone || !slice_starts(second, S("0x")))
                return false;
        second = slice_from(second.p + 2, second.n - 2);
        return number_read(second, 16, UINT64_MAX, &flags) && (flags & CLONE_VFORK);
}

/* The text is "PID (NAME) STATE …". The name may hold blanks and parentheses, so the fields are counted from the last ')' on; the status is the
 * 52nd, and the state the third. */
int proc_stat_parse_exit(struct slice text, int *ret_status)
{
        text = slice_trim(text);
        const char *name_end = text.n > 0 ? memrchr(text.p, ')', text.n) : NULL;
        if (!name_end)
                return -EBADMSG;
        struct slice rest = slice_trim(slice_from(name_end + 1, text.n - (size_t)(name_end + 1 - text.p))),
                     field = S("");
        bool is_dead = rest.n > 0 && (rest.p[0] == 'Z' || rest.p[0] == 'X');
        for (int i = 3; i <= 52; i++)
                field = slice_split(&rest, ' ');
        uint64_t status;
        if (!is_dead || !number_read(field, 10, 0xffff, &status))
                return -EBADMSG;
        *ret_status = (int)status;
        return 0;
}
