/* fs_helpers: chooses the fs helper for a request, makes new fs helpers and ends unused ones. fs_helper_talk.c has the messages. */
#include "confine/fs_helpers.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "confine/fs_helper_talk.h"
#include "confine/prepare.h"
#include "confine/reach_pack.h"
#include "proc/process.h"
#include "proc/spawn.h"
#include "proto/fs.h"
#include "proto/sandbox.h"
#include "wire/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_MS 5000
#define QUICK_RULES_MAX 64   /* the most rules of a profile that the loop resolves itself */
#define QUICK_BYTES_MAX 4096 /* the most bytes of the paths of such a profile */
#define PATIENCE_MS 20       /* how long a request waits for a busy fs helper; making a new one takes 2 ms */

struct fs_helper {
        struct list link; /* fs_helpers::all */
        struct fs_helper_line line;
        bool is_busy;
        bool is_stale; /* ends after its present request */
        uint64_t used_ms;
        size_t key_n;
        char key[]; /* the packed reach of the fs helper */
};

static void fs_helper_free(struct fs_helpers *f, struct fs_helper *one)
{
        list_remove(&one->link);
        f->count--;
        fs_helper_line_close(&one->line);
        free(one);
}

static bool has_key(const struct fs_helper *one, struct slice key)
{
        return slice_eq(slice_from(one->key, one->key_n), key);
}

/* ---- finding an fs helper, or room for a new one; the lock is held in all these functions */

/* Is this fs helper the first in the list with its key? */
static bool is_first(const struct fs_helpers *f, const struct fs_helper *one)
{
        const struct fs_helper *other;
        list_each (other, &f->all, link)
                if (has_key(other, slice_from(one->key, one->key_n)))
                        return other == one;
        return true;
}

static size_t count_of(const struct fs_helpers *f, struct slice key, size_t *ret_profiles)
{
        size_t own = 0;
        *ret_profiles = 0;
        const struct fs_helper *one;
        list_each (one, &f->all, link) {
                *ret_profiles += is_first(f, one);
                own += has_key(one, key);
        }
        return own;
}

static bool drop_oldest_idle(struct fs_helpers *f)
{
        struct fs_helper *one;
        list_each (one, &f->all, link) {
                if (one->is_busy)
                        continue;
                fs_helper_free(f, one);
                return true;
        }
        return false;
}

/* Ends fs helpers after a mount or unmount on the machine: their views still have the old mounts. */
static void notice_mounts(struct fs_helpers *f)
{
        struct pollfd p = { .fd = f->mounts, .events = POLLPRI };
        struct fs_helper *one;
        if (f->mounts < 0 || poll(&p, 1, 0) <= 0)
                return;
        list_each (one, &f->all, link) {
                if (one->is_busy)
                        one->is_stale = true;
                else
                        fs_helper_free(f, one);
        }
}

/* Returns an idle fs helper with this key. Returns NULL when there is none; then *ret_may_start says whether a new one may be
 * made. Frees dead fs helpers with this key. */
static struct fs_helper *find(struct fs_helpers *f, struct slice key, bool *ret_may_start)
{
        struct fs_helper *one;
        list_each (one, &f->all, link) {
                if (one->is_busy || !has_key(one, key))
                        continue;
                if (fs_helper_line_is_alive(&one->line))
                        return one;
                fs_helper_free(f, one);
        }
        for (;;) {
                size_t profiles, own = count_of(f, key, &profiles);
                *ret_may_start = own < LIMIT_FS_HELPERS_PER_PROFILE;
                if (!*ret_may_start || own > 0 || profiles < LIMIT_FS_HELPER_PROFILES)
                        return NULL;
                if (!drop_oldest_idle(f))
                        return NULL;
        }
}

static struct fs_helper *reserve(struct fs_helpers *f, struct slice key)
{
        struct fs_helper *one = mem_zalloc(sizeof(*one) + key.n);
        one->is_busy = true;
        one->line = FS_HELPER_LINE_NONE;
        one->key_n = key.n;
        memcpy(one->key, key.p, key.n);
        list_append(&f->all, &one->link);
        f->count++;
        return one;
}

/* Takes an fs helper and marks it as busy. *ret_is_new: the fs helper has still to be started. */
static struct fs_helper *take(struct fs_helpers *f, struct slice key, bool *ret_is_new)
{
        struct timespec until;
        bool may_start;
        struct fs_helper *one;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PATIENCE_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_mutex_lock(&f->lock);
        notice_mounts(f);
        while (!(one = find(f, key, &may_start)) && !may_start)
                if (pthread_cond_timedwait(&f->freed, &f->lock, &until) == ETIMEDOUT)
                        break;
        /* The busy fs helpers may hang in requests of another client, so one more is made. There are never more of them than
         * threads. */
        *ret_is_new = !one;
        if (!one)
                one = reserve(f, key);
        one->is_busy = true;
        pthread_mutex_unlock(&f->lock);
        return one;
}

static void give_back(struct fs_helpers *f, struct fs_helper *one, bool is_good)
{
        pthread_mutex_lock(&f->lock);
        size_t profiles, own = count_of(f, slice_from(one->key, one->key_n), &profiles);
        bool has_room = own <= LIMIT_FS_HELPERS_PER_PROFILE && profiles <= LIMIT_FS_HELPER_PROFILES;
        if (is_good && has_room && !one->is_stale) {
                one->is_busy = false;
                one->used_ms = clock_mono_ms();
                list_remove(&one->link);
                list_append(&f->all, &one->link);
        } else {
                fs_helper_free(f, one);
        }
        pthread_cond_broadcast(&f->freed);
        pthread_mutex_unlock(&f->lock);
}

/* ---- making an fs helper */

static int spawner_socket(struct fs_helpers *f, pid_t *ret_pid)
{
        pthread_mutex_lock(&f->lock);
        int fd = f->spawner < 0 ? -1 : fcntl(f->spawner, F_DUPFD_CLOEXEC, 3);
        *ret_pid = f->spawner_pid;
        pthread_mutex_unlock(&f->lock);
        return fd;
}

static int start(struct fs_helpers *f, const struct file_request *r, const struct plan *plan,
                 struct fs_helper *one, struct err *err)
{
        const struct bwrap *bwrap;
        _close_ int image = prepare_file_image(f->preparer, r->arena, plan, r->sandbox->cwd, &bwrap, err);
        if (image < 0)
                return image;
        pid_t pid;
        _close_ int spawner = spawner_socket(f, &pid);
        return fs_helper_line_open(&one->line, spawner, pid, image, bwrap, slice_from(one->key, one->key_n),
                                   err);
}

/* ---- doing a request */

/* Returns the place against which the profile of a request is resolved. Its TMPDIR is that of the server. */
static struct place place_of(const struct fs_helpers *f, const struct sandbox_context *sandbox)
{
        return sandbox_context_place(sandbox, slice_from(NULL, 0), slice_from_str(f->tmpdir));
}

/* Plans a request for the files as they are now. Returns 1 when the profile forbids nothing here. */
static int plan_request(struct fs_helpers *f, const struct file_request *r, struct plan *ret,
                        struct buf *ret_key, struct err *err)
{
        struct place place = place_of(f, r->sandbox);
        int result = prepare_file_plan(f->preparer, r->arena, &r->sandbox->profile, &place, !r->is_change,
                                       ret, err);
        if (result == 0 && !ret->has_view)
                return 1;
        if (result == 0 && reach_pack(ret, ret_key) < 0) {
                err->step = "plan";
                result = err_set(err, 0, -E2BIG, "the profile is too large");
        }
        if (result == 0)
                return 0;
        err->client_code = RPC_INVALID_REQUEST;
        err->reason = "sandboxUnavailable";
        (void)err_wrap(err, "failed to prepare fs sandbox");
        return result;
}

/* Do fs helpers work here for certain? With bwrap, which can stop working at any time, and with Landlock alone, which is a weaker
 * view, every request goes to an fs helper. */
static bool are_reliable(struct fs_helpers *f)
{
        const struct backends *b = preparer_backends_known(f->preparer);
        return b && b->chosen == BACKEND_NAMESPACES &&
               atomic_load_explicit(&f->has_served, memory_order_relaxed);
}

/* Is the profile so short that the loop may resolve it? Each entry may become a rule in each root. */
static bool is_short(const struct sandbox_context *sandbox)
{
        const struct profile *p = &sandbox->profile;
        size_t bytes = sandbox->cwd.n;
        if (p->count > QUICK_RULES_MAX || sandbox->root_count > QUICK_RULES_MAX ||
            p->count * MAX(sandbox->root_count, (size_t)1) > QUICK_RULES_MAX)
                return false;
        for (size_t i = 0; i < p->count; i++)
                bytes += p->entries[i].text.n + p->entries[i].subpath.n;
        for (size_t i = 0; i < sandbox->root_count; i++)
                bytes += sandbox->roots[i].n;
        return bytes <= QUICK_BYTES_MAX;
}

bool fs_helpers_reads_all(struct fs_helpers *f, const struct sandbox_context *sandbox,
                          struct quick_fence *ret)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err ignored = ERR_INIT;
        struct rules rules;
        if (!is_short(sandbox) || !are_reliable(f))
                return false;
        struct place place = place_of(f, sandbox);
        if (rules_resolve(&a, &sandbox->profile, &place, &rules, &ignored) < 0)
                return false;
        *ret = (struct quick_fence){ f->preparer->closed, f->preparer->closed_count };
        return rules.limits_files && rules.reads_all;
}

/* How often a request is planned again because files have changed between its plan and the start of the fs helper. */
#define STALE_TRIES 8

static int ask(struct fs_helpers *f, struct file_request *r, const struct fs_helper_question *q,
               struct err *err)
{
        for (int i = 0;; i++) {
                struct plan plan;
                _buf_ struct buf key = BUF_INIT(FS_HELPER_REACH_MAX);
                bool is_new;
                int result = plan_request(f, r, &plan, &key, err);
                if (result != 0)
                        return result;
                struct fs_helper *one = take(f, buf_slice(&key), &is_new);
                result = is_new ? start(f, r, &plan, one, err) : 0;
                if (result < 0) {
                        bool is_stale = err->os_errno == ESTALE && i < STALE_TRIES;
                        give_back(f, one, false);
                        if (is_stale)
                                continue;
                        if (err->client_code != RPC_INTERNAL)
                                err->client_code = err->step ? RPC_INVALID_REQUEST : RPC_INTERNAL;
                        return result;
                }
                err->step = NULL; /* the preparation has succeeded */
                result = fs_helper_line_ask(&one->line, q, err);
                if (result == 0)
                        atomic_store_explicit(&f->has_served, true, memory_order_relaxed);
                give_back(f, one, !one->line.is_broken);
                return result;
        }
}

int fs_helpers_run(struct fs_helpers *f, struct file_request *r, struct jsonw *w, struct err *err)
{
        struct fs_helper_question q = { .request = r, .w = w };
        int result = r->sandbox ? ask(f, r, &q, err) : 1;
        return result == 1 ? r->method->run(r, w, err) : result;
}

int fs_helpers_reach(struct fs_helpers *f, const struct file_request *r, struct arena *a, struct reach *ret,
                     struct err *err)
{
        struct plan plan;
        _buf_ struct buf key = BUF_INIT(FS_HELPER_REACH_MAX);
        int result = plan_request(f, r, &plan, &key, err);
        if (result != 0)
                return result;
        char *bytes = arena_dup(a, buf_slice(&key));
        return reach_unpack(a, slice_from(bytes, key.n), true, ret, err);
}

/* ---- opening a file */

int fs_helpers_open(struct fs_helpers *f, struct file_request *r, const struct file_open *how, int *ret_fd,
                    struct stat *ret_st, struct err *err)
{
        _close_ int fd = -1;
        struct fs_helper_question q = { .request = r, .open = how, .ret_fd = &fd };
        int result = r->sandbox ? ask(f, r, &q, err) : 1;
        if (result == 1)
                return file_open(how, ret_fd, ret_st, err);
        if (result < 0)
                return result;
        /* The fs helper is not trusted: the descriptor could be anything. */
        if (fd < 0 || fstat(fd, ret_st) < 0 || (!S_ISREG(ret_st->st_mode) && how->mode != FS_OPEN_LOOK))
                return err_set(err, RPC_INTERNAL, -EBADMSG,
                               "failed to encode or decode fs sandbox helper message: not a file");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* ---- opening, sweeping and closing */

static void sweep(void *arg)
{
        struct fs_helpers *f = arg;
        struct fs_helper *one;
        uint64_t now_ms = clock_mono_ms();
        pthread_mutex_lock(&f->lock);
        list_each (one, &f->all, link)
                if (!one->is_busy && now_ms - one->used_ms >= LIMIT_FS_HELPER_IDLE_MS)
                        fs_helper_free(f, one);
        f->is_timer_on = f->count > 0;
        pthread_mutex_unlock(&f->lock);
        if (f->is_timer_on)
                timer_start(f->timer, SWEEP_MS);
}

void fs_helpers_init(struct fs_helpers *f, struct loop *loop, struct preparer *preparer, const char *tmpdir)
{
        *f = (struct fs_helpers){ .preparer = preparer, .tmpdir = tmpdir, .spawner = -1 };
        f->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        list_init(&f->all);
        (void)pthread_mutex_init(&f->lock, NULL);
        (void)pthread_cond_init(&f->freed, NULL);
        f->timer = timer_new(loop, sweep, f);
}

void fs_helpers_interrupt(struct fs_helpers *f)
{
        const struct fs_helper *one;
        if (!f->preparer)
                return;
        pthread_mutex_lock(&f->lock);
        list_each (one, &f->all, link)
                if (one->line.socket >= 0)
                        (void)shutdown(one->line.socket, SHUT_RDWR);
        pthread_mutex_unlock(&f->lock);
}

void fs_helpers_release(struct fs_helpers *f)
{
        struct fs_helper *one;
        if (!f->preparer)
                return;
        list_each (one, &f->all, link)
                fs_helper_free(f, one);
        f->timer = timer_free(f->timer);
        f->spawner = fd_close(f->spawner);
        f->mounts = fd_close(f->mounts);
        (void)pthread_mutex_destroy(&f->lock);
        (void)pthread_cond_destroy(&f->freed);
}

void fs_helpers_note_spawner(struct fs_helpers *f, const struct procs *procs)
{
        pid_t pid = procs->spawner ? spawn_pid(procs->spawner) : 0;
        if (f->spawner_pid != pid) {
                pthread_mutex_lock(&f->lock);
                fd_close(f->spawner);
                f->spawner = pid ? fcntl(spawn_fd(procs->spawner), F_DUPFD_CLOEXEC, 3) : -1;
                f->spawner_pid = f->spawner < 0 ? 0 : pid;
                pthread_mutex_unlock(&f->lock);
        }
        if (!f->is_timer_on) {
                f->is_timer_on = true;
                timer_start(f->timer, SWEEP_MS);
        }
}
