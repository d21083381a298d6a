/* pump: carries bytes and signals, with one poll over the client, our stdin, our outputs and signals.
 *
 * Nothing here blocks: when our stdout is slow we read less from the server, and when the command does not take its input we read
 * less from stdin. SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the command; so Ctrl-C works without -t. With `may_leave`, SIGTERM,
 * SIGHUP and the end of the terminal make the person leave, and the command runs on. After its exit a command may leave children
 * that hold its output open: so we wait only until no output has come for a moment. As a slow or lost connection is silent too, the
 * server is then asked a question: output that was on its way comes before the answer.
 */
#include "cli/pump.h"

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/asker.h"
#include "cli/detached.h"
#include "cli/escape.h"
#include "cli/network_denials.h"
#include "cli/outlet.h"
#include "cli/replay.h"
#include "cli/rules.h"
#include "cli/terminal.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define IN_BYTES 65536
#define SILENCE_AFTER_EXIT_MS 250
#define WHAT_BYTES 256
#define AFTER_ALL 9007199254740991 /* above the sequence number of every event */

enum { AT_CLIENT, AT_SIGNALS, AT_IN, AT_OUT, AT_ERR, AT_ASKED, AT_COUNT };

struct pump {
        struct remote *remote;
        struct farhand *client;
        struct farhand_process *process;
        char what[WHAT_BYTES]; /* the command, for the message that the server is lost */
        struct terminal terminal;
        struct escape escape;
        struct outlet out, err;
        int signals;
        bool is_in_open;  /* our stdin is still read */
        bool is_in_ended; /* our stdin has ended; the command's is closed when all input is written */
        bool wants_raw;   /* the command has a terminal, and our stdin is a terminal */
        bool may_leave;   /* the command runs on when the person leaves */
        bool has_left;    /* the person has left by ~. */
        char in[IN_BYTES + 1];
        size_t in_at, in_n; /* the part of `in` that is read and not written yet */
        bool has_started, has_exited, is_over;
        bool *was_denied; /* the caller's; NULL: not asked for */
        int code;
        uint64_t quiet_since_ms;
        bool is_asking;                  /* the answer to the question after the exit is awaited */
        uint64_t asked_ms;               /* quiet_since_ms when the question was sent */
        struct asker *asker;             /* NULL: nothing is asked about */
        struct network_denials *denials; /* NULL: its network is not managed */
        bool is_settled;                 /* the answer has come, and no output before it */
};

/* ---- events of the process ---- */

static void give_input(struct pump *p)
{
        while (p->in_at < p->in_n) {
                int64_t n = farhand_process_write(p->process, p->in + p->in_at, p->in_n - p->in_at, NULL);
                if (n == 0)
                        return;
                if (n < 0) { /* the command takes no more input */
                        p->is_in_open = false;
                        p->in_at = p->in_n = 0;
                        return;
                }
                p->in_at += (size_t)n;
        }
        p->in_at = p->in_n = 0;
        if (!p->is_in_ended || !p->is_in_open)
                return;
        p->is_in_open = false;
        struct farhand_error error;
        if (farhand_process_close_stdin(p->process, &error) < 0)
                remote_say(p->remote, "%s", error.text);
}

static void on_writable(UNUSED struct farhand_process *process, void *arg)
{
        give_input(arg);
}

static void on_started(struct farhand_process *process, void *arg, UNUSED int64_t pid)
{
        struct pump *p = arg;
        p->has_started = true;
        remote_warn_of_start(p->remote, process);
}

static void on_output(UNUSED struct farhand_process *process, void *arg, enum farhand_stream stream,
                      const void *bytes, size_t n)
{
        struct pump *p = arg;
        p->quiet_since_ms = clock_mono_ms();
        outlet_put(stream == FARHAND_STDERR ? &p->err : &p->out, bytes, n);
}

static void on_exited(UNUSED struct farhand_process *process, void *arg, const struct farhand_exit *exit)
{
        struct pump *p = arg;
        p->has_exited = true;
        p->quiet_since_ms = clock_mono_ms();
        p->code = exit->code < 0 || exit->code > 255 ? PUMP_FAILED : exit->code;
        if (p->was_denied)
                *p->was_denied = exit->sandbox_denied;
        if (strcmp(exit->reason, "wallLimit") == 0)
                remote_say(p->remote, "the command was ended after its time limit");
        else if (strcmp(exit->reason, "memoryLimit") == 0)
                remote_say(p->remote, "the command was ended at its memory limit");
        else if (exit->code < 0)
                remote_say(p->remote, "nobody knows how the command ended");
}

static void on_closed(UNUSED struct farhand_process *process, void *arg)
{
        ((struct pump *)arg)->is_over = true;
}

static void on_failed(UNUSED struct farhand_process *process, void *arg, const struct farhand_error *error)
{
        struct pump *p = arg;
        if (p->has_started && !p->has_exited)
                remote_say(p->remote, "%s; this was running: %s", error->text, p->what);
        else
                remote_say(p->remote, "%s", error->text);
        if (strstr(error->data, "\"step\":\"exec\""))
                p->code = strstr(error->data, "\"ENOENT\"") ? PUMP_NOT_FOUND : PUMP_CANNOT_EXECUTE;
        p->is_over = true;
}

/* ---- our side ---- */

static void print_escapes(struct pump *p)
{
        remote_say(p->remote,
                   p->may_leave ? "~.  leave: the command runs on" : "~.  leave: the command ends");
        remote_say(p->remote, "~?  this list");
        remote_say(p->remote, "~~  one ~");
}

static void read_input(struct pump *p)
{
        char typed[IN_BYTES];
        ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0 && p->may_leave &&
            p->terminal.is_raw) { /* our terminal is gone, and while it was raw no key could end the input */
                p->has_left = true;
                return;
        }
        if (n <= 0) {
                p->is_in_ended = true;
                give_input(p);
                return;
        }
        for (size_t at = 0, used; at < (size_t)n; at += used) {
                enum escape_wish wish;
                p->in_n +=
                        escape_filter(&p->escape, typed + at, (size_t)n - at, p->in + p->in_n, &used, &wish);
                if (wish == ESCAPE_HELP)
                        print_escapes(p);
                if (wish == ESCAPE_LEAVE) {
                        p->has_left = true;
                        break;
                }
        }
        give_input(p); /* also what was typed right before ~. */
}

static void on_signal(struct pump *p)
{
        struct signalfd_siginfo info;
        if (read(p->signals, &info, sizeof(info)) != sizeof(info))
                return;
        unsigned rows, columns;
        if (p->may_leave && (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP)) {
                p->has_left = true;
                return;
        }
        /* A server that cannot pass the signal on can at least end the command, which these signals ask for. */
        if (info.ssi_signo == SIGINT && asker_fd(p->asker) >= 0) { /* Ctrl-C at a question is a no */
                asker_refuse(p->asker);
                return;
        }
        if (info.ssi_signo != SIGWINCH &&
            farhand_process_signal(p->process, (int)info.ssi_signo) == -EOPNOTSUPP)
                (void)farhand_process_terminate(p->process);
        if (info.ssi_signo != SIGWINCH)
                return;
        if (terminal_size(&rows, &columns))
                (void)farhand_process_resize(p->process, rows, columns);
}

/* Returns whether stdin may have input: a terminal, a pipe or a file may, /dev/null does not. */
static bool has_input(void)
{
        struct stat st;
        if (fstat(STDIN_FILENO, &st) < 0)
                return false;
        return !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

static int open_signals(struct pump *p)
{
        sigset_t set;
        sigemptyset(&set);
        static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
        for (size_t i = 0; i < ARRAY_LEN(list); i++)
                sigaddset(&set, list[i]);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return p->signals < 0 ? -errno : 0;
}

static bool is_done(const struct pump *p)
{
        if (p->has_left)
                return true;
        return (p->is_over || p->is_settled) && outlet_waiting(&p->out) == 0 && outlet_waiting(&p->err) == 0;
}

static void on_asked(UNUSED struct farhand *f, void *arg, UNUSED const char *result,
                     UNUSED const struct farhand_error *error)
{
        struct pump *p = arg;
        p->is_asking = false;
        p->is_settled = p->asked_ms == p->quiet_since_ms;
}

/* Asks the server a question of no importance, after the exit and a moment of silence: only the time of the answer matters. */
static void ask_for_more(struct pump *p)
{
        _buf_ struct buf params = BUF_INIT(64 * 1024);
        struct jsonw w;
        if (!p->has_exited || p->is_over || p->is_asking ||
            clock_mono_ms() < p->quiet_since_ms + SILENCE_AFTER_EXIT_MS)
                return;
        jsonw_begin(&w, &params);
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", farhand_process_id(p->process)); /* any client may have chosen it */
        jsonw_member_u64(&w, "afterSeq", AFTER_ALL);
        jsonw_member_u64(&w, "waitMs", 0);
        jsonw_object_end(&w);
        p->asked_ms = p->quiet_since_ms;
        p->is_asking = jsonw_end(&w) == 0 && farhand_call(p->client, "process/read", params.p, FARHAND_REPEAT,
                                                          on_asked, p, NULL) == 0;
}

/* Waits once, and does the work that is due. Returns a negative number when the client has failed. */
static int turn(struct pump *p)
{
        bool is_full =
                outlet_waiting(&p->out) > OUTLET_FULL_BYTES || outlet_waiting(&p->err) > OUTLET_FULL_BYTES;
        int asked_fd = asker_fd(p->asker);
        bool wants_in = p->is_in_open && !p->is_in_ended && p->in_at == p->in_n && asked_fd < 0;
        farhand_pause(p->client, is_full);
        struct pollfd fds[AT_COUNT] = {
                [AT_ASKED] = { .fd = asked_fd, .events = POLLIN },
                [AT_CLIENT] = { .fd = farhand_fd(p->client), .events = POLLIN },
                [AT_SIGNALS] = { .fd = p->signals, .events = POLLIN },
                [AT_IN] = { .fd = wants_in ? STDIN_FILENO : -1, .events = POLLIN },
                [AT_OUT] = { .fd = outlet_waiting(&p->out) ? p->out.fd : -1, .events = POLLOUT },
                [AT_ERR] = { .fd = outlet_waiting(&p->err) ? p->err.fd : -1, .events = POLLOUT },
        };
        int timeout = farhand_timeout_ms(p->client);
        if (p->has_exited && !p->is_asking && (timeout < 0 || timeout > SILENCE_AFTER_EXIT_MS))
                timeout = SILENCE_AFTER_EXIT_MS;
        if (poll(fds, AT_COUNT, timeout) < 0 && errno != EINTR)
                return -errno;
        outlet_flush(&p->out);
        outlet_flush(&p->err);
        if (fds[AT_SIGNALS].revents)
                on_signal(p);
        if (fds[AT_ASKED].revents && asker_fd(p->asker) >= 0)
                asker_read(p->asker);
        if (fds[AT_IN].revents && !p->has_left)
                read_input(p);
        ask_for_more(p);
        return farhand_step(p->client, NULL);
}

/* Tells the person that output is missing. The process runs on, because `farhand attach` must not end it. */
static void on_gap(UNUSED struct farhand_process *process, void *arg, UNUSED uint64_t first,
                   UNUSED uint64_t last, uint64_t bytes)
{
        struct pump *p = arg;
        if (bytes > 0)
                remote_say(p->remote, "%" PRIu64 " bytes of earlier output are no longer kept", bytes);
        else
                remote_say(p->remote, "earlier output is no longer kept");
}

static void on_exec(struct farhand_process *process, void *arg, const struct farhand_exec *exec)
{
        struct pump *p = arg;
        if (p->asker)
                asker_take_exec(p->asker, process, exec);
}

static void on_network(struct farhand_process *process, void *arg,
                       const struct farhand_network_question *question)
{
        struct pump *p = arg;
        struct farhand_network_answer no = FARHAND_NETWORK_ANSWER_INIT;
        no.action = FARHAND_NETWORK_DENY;
        if (p->asker)
                asker_take_network(p->asker, process, question);
        else
                (void)farhand_process_answer_network(process, question->id, &no, NULL);
}

static void on_network_decision(UNUSED struct farhand_process *process, void *arg,
                                const struct farhand_network_decision *decision)
{
        struct pump *p = arg;
        if (p->denials)
                network_denials_take(p->denials, decision);
}

static const struct farhand_process_events events = { .on_started = on_started,
                                                      .on_output = on_output,
                                                      .on_writable = on_writable,
                                                      .on_exited = on_exited,
                                                      .on_closed = on_closed,
                                                      .on_failed = on_failed,
                                                      .on_exec = on_exec,
                                                      .on_network = on_network,
                                                      .on_network_decision = on_network_decision };

static struct pump *pump_new(struct remote *r, struct farhand *f, bool is_tty)
{
        struct pump *p = mem_new(struct pump);
        *p = (struct pump){ .remote = r, .client = f, .signals = -1, .code = PUMP_FAILED };
        outlet_init(&p->out, STDOUT_FILENO);
        outlet_init(&p->err, STDERR_FILENO);
        terminal_init(&p->terminal);
        p->wants_raw = is_tty && p->terminal.fd >= 0;
        p->escape.is_off = !p->wants_raw;
        int result = open_signals(p);
        if (result == 0)
                return p;
        remote_say(r, "signalfd: %s", errno_text(result));
        free(p);
        return NULL;
}

static void make_raw(struct pump *p)
{
        if (p->wants_raw)
                terminal_make_raw(&p->terminal);
        p->remote->is_raw = p->terminal.is_raw;
}

/* Keeps the beginning of the command line, for messages. */
static void keep_what(struct pump *p, const char *const *argv)
{
        size_t n = 0;
        for (size_t i = 0; argv[i] && n < sizeof(p->what); i++)
                n += (size_t)snprintf(p->what + n, sizeof(p->what) - n, "%s%s", i > 0 ? " " : "", argv[i]);
        if (n >= sizeof(p->what))
                memcpy(p->what + sizeof(p->what) - 4, "...", 4);
}

/* Runs the pump until the process is over or the person leaves, and frees it. Returns the exit code. */
static int pump_stay(struct pump *p)
{
        struct remote *r = p->remote;
        make_raw(p);
        while (!is_done(p) && turn(p) == 0)
                ;
        terminal_restore(&p->terminal);
        r->is_raw = false;
        if (p->out.is_broken && p->out.os_errno != EPIPE)
                remote_say(r, "cannot write the output: %s", errno_text(p->out.os_errno));
        int code = p->has_left ? (p->may_leave ? 0 : PUMP_FAILED) : p->code;
        if (p->has_left && p->may_leave)
                remote_say(r, "detached; come back with: farhand attach %s",
                           detached_id(farhand_session_id(p->client)));
        farhand_process_free(p->process);
        asker_free(p->asker);
        network_denials_free(p->denials);
        outlet_release(&p->out);
        outlet_release(&p->err);
        fd_close(p->signals);
        free(p);
        return code;
}

int pump_run(struct remote *r, struct farhand *f, struct farhand_command *command, bool no_stdin,
             bool may_leave, bool *ret_was_denied)
{
        struct farhand_error error;
        struct pump *p = pump_new(r, f, command->tty);
        if (!p)
                return PUMP_FAILED;
        p->may_leave = may_leave;
        p->was_denied = ret_was_denied;
        keep_what(p, command->argv);
        bool asks_hosts = command->network && command->network->ask_timeout_ms > 0;
        if (command->intercept || asks_hosts)
                p->asker = asker_new(&p->terminal);
        if (asks_hosts)
                asker_use_rules(p->asker, rules_file_default(&r->arena),
                                farhand_has_capability(f, "egressV1"));
        else if (command->network)
                p->denials = network_denials_new(r);
        p->is_in_open = !no_stdin && has_input();
        command->stdin_open = p->is_in_open;
        if (command->tty && !terminal_size(&command->rows, &command->columns))
                command->rows = command->columns = 0;
        p->process = farhand_start(f, command, &events, p, &error);
        if (!p->process) {
                remote_say(r, "%s", error.text);
                p->is_over = true;
        }
        return pump_stay(p);
}

int pump_attach(struct remote *r, struct farhand *f, const char *process_id, const char *const *argv,
                bool is_tty)
{
        unsigned rows, columns;
        struct farhand_error error;
        _buf_ struct buf old = BUF_INIT(OUTLET_MAX_BYTES);
        uint64_t seq = 0;
        /* This is done before the terminal is made raw and signals are caught: the server may never answer, and a signal must end this
         * program. */
        if (is_tty && replay_read(r, f, process_id, &old, &seq) < 0)
                return PUMP_FAILED;
        struct pump *p = pump_new(r, f, is_tty);
        if (!p)
                return PUMP_FAILED;
        p->may_leave = p->has_started = true;
        keep_what(p, argv);
        p->escape.is_off = p->terminal.fd < 0; /* escapes also work when the command has no terminal */
        p->is_in_open = has_input();
        struct farhand_process_events with_gaps = events;
        with_gaps.on_gap = on_gap;
        p->process = farhand_adopt(f, process_id, seq, &with_gaps, p, &error);
        if (!p->process) {
                remote_say(r, "%s", error.text);
                p->is_over = true;
                return pump_stay(p);
        }
        make_raw(p);
        outlet_put(&p->out, old.p, old.n);
        if (is_tty && terminal_size(&rows, &columns))
                (void)farhand_process_resize(p->process, rows, columns);
        return pump_stay(p);
}
