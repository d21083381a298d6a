/* filers: see filers.h. Here: which filer does a request, making and ending them. The talk with one is filer_talk.c. */
#include "server/filers.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "fsop/at.h"
#include "fsop/fsop.h"
#include "proc/process.h"
#include "proc/spawn.h"
#include "proto/sandbox.h"
#include "sandbox/prepare.h"
#include "server/filer_law.h"
#include "server/filer_talk.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_MS 5000
#define PATIENCE_MS 20 /* for one that is at work; making another takes a tenth of it */

struct filer {
        struct list link; /* filers::all */
        struct filer_line line;
        bool is_busy;
        bool is_stale; /* ends when it has done what it does */
        uint64_t used_ms;
        size_t key_n;
        char key[]; /* the law that it has */
};

static struct filer *filer_free(struct filers *f, struct filer *one)
{
        list_remove(&one->link);
        f->count--;
        filer_line_close(&one->line);
        free(one);
        return NULL;
}

static bool has_key(const struct filer *one, struct slice key)
{
        return slice_eq(slice_from(one->key, one->key_n), key);
}

/* ---- room for one more; all with the lock held */

/* Is it the first of its profile in the list? */
static bool is_first(const struct filers *f, const struct filer *one)
{
        const struct filer *other;
        list_each (other, &f->all, link)
                if (has_key(other, slice_from(one->key, one->key_n)))
                        return other == one;
        return true;
}

static size_t count_of(const struct filers *f, struct slice key, size_t *ret_profiles)
{
        size_t own = 0;
        *ret_profiles = 0;
        const struct filer *one;
        list_each (one, &f->all, link) {
                *ret_profiles += is_first(f, one);
                own += has_key(one, key);
        }
        return own;
}

static bool drop_oldest_idle(struct filers *f)
{
        struct filer *one;
        list_each (one, &f->all, link) {
                if (one->is_busy)
                        continue;
                filer_free(f, one);
                return true;
        }
        return false;
}

/* A view holds the mounts that there were when it was made. */
static void notice_mounts(struct filers *f)
{
        struct pollfd p = { .fd = f->mounts, .events = POLLPRI };
        struct filer *one;
        if (f->mounts < 0 || poll(&p, 1, 0) <= 0)
                return;
        list_each (one, &f->all, link) {
                if (one->is_busy)
                        one->is_stale = true;
                else
                        filer_free(f, one);
        }
}

/* One that is free, or NULL and *ret_may_start. Those that died in their sleep are passed over. */
static struct filer *find(struct filers *f, struct slice key, bool *ret_may_start)
{
        struct filer *one;
        list_each (one, &f->all, link) {
                if (one->is_busy || !has_key(one, key))
                        continue;
                if (filer_line_is_alive(&one->line))
                        return one;
                filer_free(f, one);
        }
        for (;;) {
                size_t profiles, own = count_of(f, key, &profiles);
                *ret_may_start = own < LIMIT_FILERS_PER_PROFILE;
                if (!*ret_may_start || own > 0 || profiles < LIMIT_FILER_PROFILES)
                        return NULL;
                if (!drop_oldest_idle(f))
                        return NULL;
        }
}

static struct filer *reserve(struct filers *f, struct slice key)
{
        struct filer *one = mem_zalloc(sizeof(*one) + key.n);
        one->is_busy = true;
        one->line = FILER_LINE_NONE;
        one->key_n = key.n;
        memcpy(one->key, key.p, key.n);
        list_append(&f->all, &one->link);
        f->count++;
        return one;
}

/* Busy from here on; *ret_is_new: its line is not open yet. */
static struct filer *take(struct filers *f, struct slice key, bool *ret_is_new)
{
        struct timespec until;
        bool may_start;
        struct filer *one;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PATIENCE_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_mutex_lock(&f->lock);
        notice_mounts(f);
        while (!(one = find(f, key, &may_start)) && !may_start)
                if (pthread_cond_timedwait(&f->freed, &f->lock, &until) == ETIMEDOUT)
                        break;
        /* They may hang, for another client's sake. Those at work are never more than there are threads. */
        *ret_is_new = !one;
        if (!one)
                one = reserve(f, key);
        one->is_busy = true;
        pthread_mutex_unlock(&f->lock);
        return one;
}

static void give_back(struct filers *f, struct filer *one, bool is_good)
{
        pthread_mutex_lock(&f->lock);
        size_t profiles, own = count_of(f, slice_from(one->key, one->key_n), &profiles);
        bool has_room = own <= LIMIT_FILERS_PER_PROFILE && profiles <= LIMIT_FILER_PROFILES;
        if (is_good && has_room && !one->is_stale) {
                one->is_busy = false;
                one->used_ms = clock_mono_ms();
                list_remove(&one->link);
                list_append(&f->all, &one->link);
        } else {
                filer_free(f, one);
        }
        pthread_cond_broadcast(&f->freed);
        pthread_mutex_unlock(&f->lock);
}

/* ---- making one */

static int spawner_socket(struct filers *f)
{
        pthread_mutex_lock(&f->lock);
        int fd = f->spawner < 0 ? -1 : fcntl(f->spawner, F_DUPFD_CLOEXEC, 3);
        pthread_mutex_unlock(&f->lock);
        return fd;
}

static int start(struct filers *f, struct arena *a, const struct plan *plan, struct filer *one,
                 struct err *err)
{
        _close_ int image = prepare_file_image(&f->server->boxes.preparer, a, plan, err);
        if (image < 0)
                return image;
        _close_ int spawner = spawner_socket(f);
        return filer_line_open(&one->line, spawner, image, slice_from(one->key, one->key_n), err);
}

/* ---- a request */

/* What the profile means now. 1: it forbids nothing after all. */
static int plan_request(struct job *job, struct plan *ret, struct buf *ret_key, struct err *err)
{
        struct slice tmpdir = slice_from_str(getenv("TMPDIR") ? getenv("TMPDIR") : "");
        struct place place = sandbox_context_place(job->box, slice_from(NULL, 0), tmpdir);
        int r = prepare_file_plan(&job->server->boxes.preparer, &job->arena, &job->box->profile, &place,
                                  !job->is_change, ret, err);
        if (r == 0 && !ret->has_view)
                return 1;
        if (r == 0 && filer_law_write(ret, ret_key) < 0) {
                err->step = "plan";
                r = err_set(err, 0, -E2BIG, "the profile is too large");
        }
        if (r == 0)
                return 0;
        err->rpc = RPC_INVALID_REQUEST;
        err->reason = "sandboxUnavailable";
        (void)err_wrap(err, "failed to prepare fs sandbox");
        return r;
}

/* A start that found something else than the plan saw is planned again. */
#define STALE_TRIES 8

static int ask(struct job *job, const struct filer_question *q, struct err *err)
{
        struct filers *f = &job->server->filers;
        for (int i = 0;; i++) {
                struct plan plan;
                _buf_ struct buf key = BUF_INIT(FILER_LAW_MAX);
                bool is_new;
                int r = plan_request(job, &plan, &key, err);
                if (r != 0)
                        return r;
                struct filer *one = take(f, buf_slice(&key), &is_new);
                r = is_new ? start(f, &job->arena, &plan, one, err) : 0;
                if (r < 0) {
                        bool is_stale = err->os_errno == ESTALE && i < STALE_TRIES;
                        give_back(f, one, false);
                        if (is_stale)
                                continue;
                        err->rpc = err->step ? RPC_INVALID_REQUEST : RPC_INTERNAL;
                        return r;
                }
                r = filer_line_ask(&one->line, q, err);
                give_back(f, one, !one->line.is_broken);
                return r;
        }
}

int filers_run(struct job *job, struct jsonw *w, struct err *err)
{
        struct filer_question q = { .job = job, .shape = job->class->boxed, .params = job->params, .w = w };
        while (q.method < filer_method_count && filer_methods[q.method]->job != job->class)
                q.method++;
        must(q.method < filer_method_count);
        int r = ask(job, &q, err);
        return r == 1 ? job->class->run(job, w, err) : r;
}

int filers_law(struct job *job, struct arena *a, struct law *ret, struct err *err)
{
        struct plan plan;
        _buf_ struct buf key = BUF_INIT(FILER_LAW_MAX);
        int r = plan_request(job, &plan, &key, err);
        if (r != 0)
                return r;
        char *bytes = arena_dup(a, buf_slice(&key));
        return filer_law_read(a, slice_from(bytes, key.n), true, ret, err);
}

/* ---- opening */

/* For writing: only a regular file, and truncated only when it is one. */
static int open_for_writing(const struct filer_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        _close_ int fd = at_new_error(how->path.p, fsop_open(how->path.p, O_WRONLY | O_CREAT, 0666, true));
        if (fd < 0)
                return fsop_fail(err, fd);
        if (fstat(fd, ret_st) < 0)
                return fsop_fail(err, errno);
        if (!S_ISREG(ret_st->st_mode))
                return fsop_refuse(err, "path `%s` is not a file", how->path.p);
        if (how->mode == FS_OPEN_REPLACE && ret_st->st_size > 0 && ftruncate(fd, 0) < 0)
                return fsop_fail(err, errno);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int open_to_look(const struct filer_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        _close_ int fd = fsop_open(how->path.p, O_PATH, 0, true);
        int r = fd < 0 ? fd : law_may_read(fd);
        if (r == 0 && fstat(fd, ret_st) < 0)
                r = -errno;
        if (r < 0)
                return fsop_fail(err, r);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int fs_open_here(const struct filer_open *how, int *ret_fd, struct stat *ret_st, struct err *err)
{
        if (how->mode == FS_OPEN_LOOK)
                return open_to_look(how, ret_fd, ret_st, err);
        return how->mode == FS_OPEN_READ ? fsop_open_regular(how->path.p, how->follow, ret_fd, ret_st, err)
                                         : open_for_writing(how, ret_fd, ret_st, err);
}

int fs_open_file(struct job *job, const struct filer_open *how, int *ret_fd, struct stat *ret_st,
                 struct err *err)
{
        _close_ int fd = -1;
        struct filer_question q = {
                .job = job, .method = FILER_OPEN, .shape = &filer_open_params, .params = how, .ret_fd = &fd
        };
        int r = job->box ? ask(job, &q, err) : 1;
        if (r == 1)
                return fs_open_here(how, ret_fd, ret_st, err);
        if (r < 0)
                return r;
        /* A filer is not believed: what it hands over could be anything. */
        if (fd < 0 || fstat(fd, ret_st) < 0 || (!S_ISREG(ret_st->st_mode) && how->mode != FS_OPEN_LOOK))
                return err_set(err, RPC_INTERNAL, -EBADMSG,
                               "failed to encode or decode fs sandbox helper message: not a file");
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* ---- life */

static void sweep(void *arg)
{
        struct filers *f = arg;
        struct filer *one;
        uint64_t now_ms = clock_mono_ms();
        pthread_mutex_lock(&f->lock);
        list_each (one, &f->all, link) {
                if (!one->is_busy && now_ms - one->used_ms >= LIMIT_FILER_IDLE_MS)
                        filer_free(f, one);
        }
        f->is_timer_on = f->count > 0;
        pthread_mutex_unlock(&f->lock);
        if (f->is_timer_on)
                timer_start(f->timer, SWEEP_MS);
}

void filers_init(struct filers *f, struct server *server)
{
        *f = (struct filers){ .server = server, .spawner = -1 };
        f->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        list_init(&f->all);
        (void)pthread_mutex_init(&f->lock, NULL);
        (void)pthread_cond_init(&f->freed, NULL);
        f->timer = timer_new(&server->loop, sweep, f);
}

void filers_interrupt(struct filers *f)
{
        const struct filer *one;
        if (!f->server)
                return;
        pthread_mutex_lock(&f->lock);
        list_each (one, &f->all, link)
                if (one->line.socket >= 0)
                        (void)shutdown(one->line.socket, SHUT_RDWR);
        pthread_mutex_unlock(&f->lock);
}

void filers_release(struct filers *f)
{
        struct filer *one;
        if (!f->server)
                return;
        list_each (one, &f->all, link) {
                filer_free(f, one);
        }
        f->timer = timer_free(f->timer);
        f->spawner = fd_close(f->spawner);
        f->mounts = fd_close(f->mounts);
        (void)pthread_mutex_destroy(&f->lock);
        (void)pthread_cond_destroy(&f->freed);
}

void filers_meet_spawner(struct filers *f, const struct procs *procs)
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
