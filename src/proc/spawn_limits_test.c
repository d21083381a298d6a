/* spawn_limits_test: limits of commands, and commands in cgroups of their own. */
#include "unit.h"

#include "proc/spawn_rig.h"

#include "keeper/cgroup.h"
#include "keeper/spawn_msg.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define TEXT_BYTES 4096

/* Runs a script under limits to its end; its output is in `ret`. */
static struct rig_seen run(const struct spawn_limits *limits, const char *script, char ret[TEXT_BYTES])
{
        struct rig rig;
        rig_open(&rig);
        rig.limits = *limits;
        rig_start_sh(&rig, 1, script);
        rig_wait(&rig, rig.seen[1].has_gone);
        rig_output_close(&rig);
        rig_read(&rig, ret, TEXT_BYTES, NULL);
        rig_close(&rig);
        return rig.seen[1];
}

static void says_limit(const char *text, const char *name, unsigned long long soft, unsigned long long hard)
{
        const char *line = strstr(text, name);
        unsigned long long is_soft, is_hard;
        ok(line != NULL);
        eq_int(sscanf(line + strlen(name), "%llu %llu", &is_soft, &is_hard), 2);
        eq_u64(is_soft, soft);
        eq_u64(is_hard, hard);
}

TEST(each_limit_is_there_soft_and_hard)
{
        char text[TEXT_BYTES];
        struct spawn_limits limits = { .cpu_seconds = 100, .file_bytes = 1 << 20 };
        if (!unit_is_valgrind()) {
                limits.memory_bytes = 1 << 30;
                limits.open_files = 33;
        }
        run(&limits, "cat /proc/self/limits", text);
        says_limit(text, "Max cpu time", 100, 101);
        says_limit(text, "Max file size", 1 << 20, 1 << 20);
        if (unit_is_valgrind())
                return;
        says_limit(text, "Max address space", 1 << 30, 1 << 30);
        says_limit(text, "Max open files", 33, 33);
}

TEST(no_limits_leave_everything_as_it_is)
{
        char text[TEXT_BYTES], own[TEXT_BYTES] = "";
        run(&(struct spawn_limits){ 0 }, "cat /proc/self/limits", text);
        int fd = open("/proc/self/limits", O_RDONLY | O_CLOEXEC);
        ok(fd >= 0 && read(fd, own, sizeof(own) - 1) > 0);
        close(fd);
        static const char *const rows[] = { "Max cpu time", "Max file size", "Max address space" };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const char *a = strstr(text, rows[i]), *b = strstr(own, rows[i]);
                eq_slice(slice_from(a, strcspn(a, "\n")), slice_from(b, strcspn(b, "\n")));
        }
}

TEST(too_much_cpu_ends_it_with_sigxcpu)
{
        char text[TEXT_BYTES];
        struct rig_seen seen = run(&(struct spawn_limits){ .cpu_seconds = 1 }, "while :; do :; done", text);
        ok(WIFSIGNALED(seen.exit.status));
        eq_int(WTERMSIG(seen.exit.status), SIGXCPU);
        eq_u64(seen.exit.met, 0);
}

TEST(too_large_a_file_ends_it_with_sigxfsz)
{
        char text[TEXT_BYTES], script[256], path[] = "/tmp/limits_test_XXXXXX";
        int fd = mkstemp(path);
        ok(fd >= 0);
        snprintf(script, sizeof(script), "exec head -c 100000 /dev/zero > %s", path);
        struct rig_seen seen = run(&(struct spawn_limits){ .file_bytes = 4096 }, script, text);
        eq_int(WTERMSIG(seen.exit.status), SIGXFSZ);
        struct stat st;
        eq_int(fstat(fd, &st), 0);
        eq_u64(st.st_size, 4096);
        close(fd);
        unlink(path);
}

TEST(too_much_memory_is_refused_to_it)
{
        if (unit_is_valgrind())
                skip();
        char text[TEXT_BYTES];
        struct rig_seen seen = run(&(struct spawn_limits){ .memory_bytes = 64 << 20 },
                                   "x=$(head -c 200000000 /dev/zero | tr '\\0' x) || exit 9; echo no", text);
        ok(seen.exit.status != 0);
        ok(!strstr(text, "no\n"));
}

TEST(more_open_files_than_can_be_had_fail_at_limits)
{
        struct rig rig;
        rig_open(&rig);
        rig.limits.open_files = UINT64_C(1) << 40; /* more than root may have */
        rig_start(&rig, 1, "/bin/true");
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig.seen[1].has_failed);
        eq_str(rig.seen[1].step, "limits");
        eq_int(rig.seen[1].os_errno, EPERM);
        rig_close(&rig);
}

TEST(enormous_limits_are_none)
{
        char text[TEXT_BYTES];
        struct rig_seen seen = run(&(struct spawn_limits){ .cpu_seconds = UINT64_MAX,
                                                           .memory_bytes = UINT64_MAX,
                                                           .file_bytes = UINT64_MAX },
                                   "while [ ${#x} -lt 1000 ]; do x=${x}y; done", text);
        eq_int(seen.exit.status, 0);
}

/* A process cannot raise its limits again, so this test runs in a process of its own. */
TEST(a_stricter_limit_that_is_there_stays)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                const struct rlimit strict = { .rlim_cur = 65536, .rlim_max = 1 << 20 };
                if (setrlimit(RLIMIT_FSIZE, &strict) < 0)
                        _exit(1);
                char text[TEXT_BYTES];
                struct rig_seen seen = run(&(struct spawn_limits){ .file_bytes = UINT64_C(1) << 40 },
                                           "cat /proc/self/limits", text);
                says_limit(text, "Max file size", 1 << 20, 1 << 20);
                _exit(seen.exit.status);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

TEST(a_sandbox_gets_half_of_the_open_files_unless_there_are_few)
{
        static const struct {
                rlim_t soft, hard, want_soft, want_hard;
        } rows[] = {
                { 1024, 1048576, 1024, 524288 }, { 20000, 20000, 10000, 10000 }, { 1024, 1024, 512, 512 },
                { 1024, 4096, 1024, 2048 },      { 1023, 1023, 1023, 1023 },     { 64, 1000, 64, 1000 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rlimit got = spawn_limits_nofile((struct rlimit){ rows[i].soft, rows[i].hard });
                eq_u64(got.rlim_cur, rows[i].want_soft);
                eq_u64(got.rlim_max, rows[i].want_hard);
        }
}

/* ---- which limits can be enforced ---- */

TEST(how_each_limit_is_enforced_is_said)
{
        struct spawn_enforced how;
        struct err err = ERR_INIT;
        eq_int(spawn_limits_check(&(struct spawn_limits){ 0 }, &how, &err), 0);
        ok(!how.cpu_seconds && !how.memory_bytes && !how.open_files && !how.file_bytes && !how.processes);

        int controllers = cgroup_probe();
        bool has_memory = controllers > 0 && controllers & CGROUP_MEMORY;
        struct spawn_limits all = { .cpu_seconds = 1, .memory_bytes = 2, .open_files = 3, .file_bytes = 4 };
        eq_int(spawn_limits_check(&all, &how, &err), 0);
        eq_str(how.cpu_seconds, "rlimit");
        eq_str(how.memory_bytes, has_memory ? "cgroup" : "rlimit");
        eq_str(how.open_files, "rlimit");
        eq_str(how.file_bytes, "rlimit");
        ok(!how.processes);
}

static bool has_controller(int which)
{
        int found = cgroup_probe();
        return found > 0 && found & which;
}

TEST(a_limit_of_processes_needs_a_cgroup)
{
        struct spawn_enforced how;
        struct err err = ERR_INIT;
        struct spawn_limits limits = { .processes = 5 };
        if (has_controller(CGROUP_PIDS)) {
                eq_int(spawn_limits_check(&limits, &how, &err), 0);
                eq_str(how.processes, "cgroup");
                skip();
        }
        eq_int(spawn_limits_check(&limits, &how, &err), -ENOTSUP);
        eq_str(err.text, "limit cannot be enforced");
        ok(err.remedy != NULL);

        /* A caller that starts without asking first does not get a command without the limit. */
        struct rig rig;
        rig_open(&rig);
        rig.limits = limits;
        rig_start(&rig, 1, "/bin/true");
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig.seen[1].has_failed);
        eq_str(rig.seen[1].step, "limits");
        rig.limits = (struct spawn_limits){ 0 };
        rig_start(&rig, 2, "/bin/true");
        rig_wait(&rig, rig.seen[2].has_gone);
        eq_int(rig.seen[2].exit.status, 0);
        rig_close(&rig);
}

TEST(a_limit_of_processes_stops_forks_and_is_told)
{
        if (!has_controller(CGROUP_PIDS))
                skip();
        char text[TEXT_BYTES];
        struct rig_seen seen = run(&(struct spawn_limits){ .processes = 5 },
                                   "for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait; exit 7", text);
        ok(seen.exit.met & SPAWN_MET_PROCESSES);
}

TEST(memory_of_the_tree_ends_it_and_is_told)
{
        if (!has_controller(CGROUP_MEMORY))
                skip();
        char text[TEXT_BYTES];
        /* Three processes use more memory together than the limit, and each of them less. */
        struct rig_seen seen =
                run(&(struct spawn_limits){ .memory_bytes = 64 << 20 },
                    "for i in 1 2 3; do head -c 30000000 /dev/zero | tail & done; wait; sleep 1000", text);
        ok(seen.exit.met & SPAWN_MET_MEMORY);
        eq_int(WTERMSIG(seen.exit.status), SIGKILL);
}

/* ---- commands in cgroups of their own ---- */

/* Opens the directory in which farhand-PID is made. Skips the test when no cgroup can be made. */
static int base_open(void)
{
        struct cgroup c;
        if (cgroup_open(&c) < 0)
                skip();
        int base = fcntl(c.base, F_DUPFD_CLOEXEC, 3);
        cgroup_close(&c);
        ok(base >= 0);
        return base;
}

static bool is_there(int base, const char *format, pid_t spawner)
{
        char name[64];
        struct stat st;
        int n = snprintf(name, sizeof(name), "farhand-%d", (int)spawner);
        snprintf(name + n, sizeof(name) - (size_t)n, "%s", format);
        return fstatat(base, name, &st, 0) == 0;
}

#define HOME ""
#define FIRST "/1"

#define ESCAPE                                                                                          \
        "(setsid sleep 1000 &)\n"                                                                       \
        "setsid sh -c 'trap \"\" HUP INT TERM; (setsid sh -c \"sleep 1000; true\" &) ; sleep 1000' &\n" \
        "(setsid sh -c 'kill -STOP $$' &)\n"

/* Starts command 1 in a cgroup, with processes that try to escape. */
static void start_in_leaf(struct rig *rig, char text[TEXT_BYTES])
{
        rig_open(rig);
        rig->wants_cgroup = true;
        rig_start_sh(rig, 1, ESCAPE "cat /proc/self/cgroup; echo ready; sleep 1000; true");
        rig_wait(rig, rig->seen[1].has_started);
        rig_read(rig, text, TEXT_BYTES, "ready\n");
        rig_output_close(rig);
}

static void says_leaf(const char *text, pid_t spawner)
{
        char want[64];
        snprintf(want, sizeof(want), "farhand-%d/1\n", (int)spawner);
        ok(strstr(text, want));
}

TEST(a_command_that_wants_it_has_a_cgroup_and_it_goes_with_the_tree)
{
        int base = base_open();
        struct rig rig;
        char text[TEXT_BYTES];
        start_in_leaf(&rig, text);
        says_leaf(text, rig.spawner_pid);
        ok(is_there(base, FIRST, rig.spawner_pid));
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig_output_ended(&rig));
        eq_int(WTERMSIG(rig.seen[1].exit.status), SIGKILL);
        eq_u64(rig.seen[1].exit.met, 0);
        ok(!is_there(base, FIRST, rig.spawner_pid));
        ok(is_there(base, HOME, rig.spawner_pid));

        rig.out[1] = rig.null;
        rig.wants_cgroup = false;
        size_t idle = rig_count_fds(rig.spawner_pid);
        rig_start(&rig, 2, "/bin/true");
        rig.wants_cgroup = true;
        rig_start(&rig, 3, "/nonexistent/program");
        rig_start(&rig, 4, "/bin/true");
        rig.out[1] = -1;
        rig_wait(&rig, rig.gone == 4);
        ok(rig.seen[3].has_failed);
        eq_int(rig.seen[4].exit.status, 0);
        eq_u64(rig_count_fds(rig.spawner_pid), idle);
        rig_close(&rig);
        ok(!is_there(base, HOME, rig.spawner_pid));
        close(base);
}

TEST(no_cgroup_is_made_for_who_does_not_need_one)
{
        int base = base_open();
        struct rig rig;
        rig_open(&rig);
        rig.limits = (struct spawn_limits){ .cpu_seconds = 50 };
        rig_start(&rig, 1, "/bin/true");
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(!is_there(base, HOME, rig.spawner_pid));
        rig_close(&rig);
        close(base);
}

TEST(a_hundred_cgroups_at_once_all_go)
{
        int base = base_open();
        struct rig rig;
        rig_open(&rig);
        rig.wants_cgroup = true;
        for (uint32_t i = 0; i < 100; i++) {
                rig_start_sh(&rig, i, "(setsid sleep 1000 &); sleep 1000");
                if (i % 3 == 0)
                        spawn_kill(rig.s, i);
        }
        for (uint32_t i = 0; i < 100; i++)
                if (i % 3)
                        spawn_kill(rig.s, i);
        rig_output_close(&rig);
        rig_wait(&rig, rig.gone == 100);
        ok(rig_output_ended(&rig));
        rig_close(&rig);
        ok(!is_there(base, HOME, rig.spawner_pid));
        close(base);
}

static pid_t parent_of(pid_t pid)
{
        char path[64], text[512];
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ok(fd >= 0);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        ok(n > 0);
        close(fd);
        text[n] = 0;
        int parent;
        eq_int(sscanf(strrchr(text, ')'), ") %*c %d", &parent), 1);
        return parent;
}

TEST(a_killed_keepers_cgroup_is_ended_and_removed)
{
        int base = base_open();
        struct rig rig;
        char text[TEXT_BYTES];
        start_in_leaf(&rig, text);
        eq_int(kill(parent_of(rig.seen[1].pid), SIGKILL), 0);
        rig_wait(&rig, rig.seen[1].has_gone);
        ok(rig_output_ended(&rig));
        ok(!is_there(base, FIRST, rig.spawner_pid));
        rig_close(&rig);
        ok(!is_there(base, HOME, rig.spawner_pid));
        close(base);
}

TEST(when_the_spawner_is_killed_keepers_remove_the_cgroups)
{
        int base = base_open();
        struct rig rig;
        char text[TEXT_BYTES];
        start_in_leaf(&rig, text);
        rig.out[1] = rig.null;
        rig_start_sh(&rig, 2, "sleep 1000; true");
        rig.out[1] = -1;
        rig_wait(&rig, rig.seen[2].has_started);
        eq_int(kill(rig.spawner_pid, SIGKILL), 0);
        rig_wait(&rig, rig.is_lost);
        rig_close(&rig);
        ok(!is_there(base, HOME, rig.spawner_pid));
        close(base);
}

/* A process that had left the command's tree would survive without a cgroup. */
TEST(keeper_and_spawner_killed_at_once_leave_nobody_in_a_cgroup)
{
        int base = base_open();
        struct rig rig;
        char text[TEXT_BYTES];
        start_in_leaf(&rig, text);
        pid_t keeper = parent_of(rig.seen[1].pid);
        eq_int(kill(rig.spawner_pid, SIGSTOP), 0); /* so that the spawner cannot clean up in between */
        eq_int(kill(keeper, SIGKILL), 0);
        eq_int(kill(rig.spawner_pid, SIGKILL), 0);
        rig_wait(&rig, rig.is_lost);
        rig_close(&rig); /* all became children of the test, and are dead */
        ok(cgroup_probe() >= 0);
        ok(!is_there(base, HOME, rig.spawner_pid));
        close(base);
}

/* Makes clone3 fail with ENOSYS, as the old seccomp filters of containers do. */
static bool clone3_forbid(void)
{
        struct sock_filter rules[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 435, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = ARRAY_LEN(rules), .filter = rules };
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(without_clone3_the_child_enters_by_itself)
{
        close(base_open());
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (!clone3_forbid())
                        _exit(77);
                struct rig rig;
                char text[TEXT_BYTES];
                start_in_leaf(&rig, text);
                says_leaf(text, rig.spawner_pid);
                spawn_kill(rig.s, 1);
                rig_wait(&rig, rig.seen[1].has_gone);
                rig_close(&rig);
                _exit(0);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        if (status == 77 << 8)
                skip();
        eq_int(status, 0);
}
