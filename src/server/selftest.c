/* selftest: runs the self-test of the sandbox back ends on the pool, and answers the requests that wait for it. */
#include "server/selftest.h"

#include "base/log.h"
#include "base/mem.h"
#include "core/environment.h"
#include "core/parked.h"
#include "core/server.h"
#include "gate/gate.h"
#include "intercept/tested.h"

#define SELFTEST_DELAY_MS 50
#define SELFTEST_WAITING_MAX 64 /* how many environment/info may wait; more are answered without the result */

struct selftest {
        struct work work;
        struct timer *timer; /* NULL once the self-test has begun */
        bool is_running;
        struct server *server;
        struct list waiting; /* info_wait::link */
        size_t waiting_count;
};

/* An environment/info that waits for the result. */
struct info_wait {
        struct parked parked;
        struct list link; /* selftest::waiting */
        struct selftest *test;
};

static void info_forget(struct parked *parked)
{
        struct info_wait *i = container_of(parked, struct info_wait, parked);
        list_remove(&i->link);
        i->test->waiting_count--;
        free(i);
}

static void log_result(const struct backends *b)
{
        struct err err = ERR_INIT;
        if (b->chosen != BACKEND_NONE) {
                log_info("sandbox back end", "backend=%s landlock=%d", backend_name(b->chosen),
                         b->landlock_abi);
                if (b->chosen == BACKEND_BUBBLEWRAP && b->bwrap.finish_errno != 0)
                        log_warn("the system keeps us from joining what bwrap builds: less is kept than "
                                 "could be",
                                 "errno=%s remedy=farhand-doctor", errno_name(b->bwrap.finish_errno));
                return;
        }
        (void)backends_refuse(b, &err);
        log_warn("sandboxes cannot be enforced: whatever asks for one is refused",
                 "step=%s errno=%s why=%s remedy=%s", err.step, errno_name(err.os_errno),
                 log_quote(slice_from_str(err.text)), b->is_passing ? "try-again" : "farhand-doctor");
}

static void log_interception(void)
{
        struct intercept_tested t = intercept_test();
        if (t.step)
                log_warn(intercept_means() == INTERCEPT_BY_PRELOAD
                                 ? "programs are intercepted by preloading only: static programs are not seen"
                                 : "programs cannot be intercepted: whatever asks for it is refused",
                         "step=%s errno=%s remedy=%s", t.step, errno_name(t.os_errno),
                         log_quote(slice_from_str(t.remedy)));
}

static void run(struct work *w)
{
        struct selftest *t = container_of(w, struct selftest, work);
        log_result(preparer_backends(&t->server->confine.preparer));
        log_interception();
}

static void done(struct work *w)
{
        struct selftest *t = container_of(w, struct selftest, work);
        const struct backends *known = preparer_backends_known(&t->server->confine.preparer);
        struct info_wait *i;
        t->is_running = false;
        if (w->is_cancelled)
                return; /* the server is ending */
        while ((i = list_first(&t->waiting, struct info_wait, link))) {
                struct jsonw out;
                struct conn *conn = i->parked.client->conn;
                conn_reply_begin(conn, &i->parked.id, ENVIRONMENT_INFO_HINT, &out);
                environment_info_write(&out, known, intercept_means() != INTERCEPT_BY_NOTHING,
                                       gate_can_enforce(t->server));
                conn_reply_end(conn, &i->parked.id, &out);
                parked_done(&i->parked);
        }
}

static void begin(void *arg)
{
        struct selftest *t = arg;
        if (t->is_running)
                return;
        t->is_running = true;
        t->timer = timer_free(t->timer);
        pool_submit(t->server->pool, &t->work);
}

struct selftest *selftest_new(struct server *server)
{
        struct selftest *t = mem_new(struct selftest);
        *t = (struct selftest){ .work = { .run = run, .done = done }, .server = server };
        list_init(&t->waiting);
        t->timer = timer_new(&server->loop, begin, t);
        timer_start(t->timer, SELFTEST_DELAY_MS);
        return t;
}

struct selftest *selftest_free(struct selftest *t)
{
        if (t)
                timer_free(t->timer);
        free(t);
        return NULL;
}

int selftest_await(struct selftest *t, struct req *req, struct err *err)
{
        if (t->waiting_count >= SELFTEST_WAITING_MAX)
                return 1;
        struct info_wait *i = mem_new(struct info_wait);
        int r = parked_init(&i->parked, req, sizeof(*i), info_forget, err);
        if (r < 0) {
                free(i);
                return r;
        }
        i->test = t;
        t->waiting_count++;
        list_append(&t->waiting, &i->link);
        begin(t);
        return 0;
}
