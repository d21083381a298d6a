/* selftest: see selftest.h. */
#include "server/selftest.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/environment.h"
#include "server/parked.h"
#include "server/server.h"

/* environment/info that came too early. */
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

static void run(struct work *w)
{
        struct selftest *t = container_of(w, struct selftest, work);
        preparer_backends(&t->server->boxes.preparer);
}

static void tell(const struct backends *b)
{
        struct err err = ERR_INIT;
        if (b->chosen != BACKEND_NONE) {
                log_info("sandbox back end", "backend=%s landlock=%d", backend_name(b->chosen),
                         b->landlock_abi);
                return;
        }
        (void)backends_refuse(b, &err);
        log_warn("sandboxes cannot be enforced: whatever asks for one is refused",
                 "step=%s errno=%s why=%s remedy=farhand-doctor", err.step, errno_name(err.os_errno),
                 log_quote(slice_from_str(err.text)));
}

static void done(struct work *w)
{
        struct selftest *t = container_of(w, struct selftest, work);
        const struct backends *known = preparer_backends_known(&t->server->boxes.preparer);
        struct info_wait *i;
        if (!known)
                return; /* the server is ending */
        tell(known);
        while ((i = list_first(&t->waiting, struct info_wait, link))) {
                struct jsonw out;
                parked_reply_begin(&i->parked, ENVIRONMENT_INFO_HINT, &out);
                environment_info_write(&out, known);
                parked_reply_end(&i->parked, &out);
        }
}

static void begin(struct selftest *t)
{
        if (!t->timer)
                return;
        t->timer = timer_free(t->timer);
        pool_submit(t->server->pool, &t->work);
}

static void on_timer(void *arg)
{
        begin(arg);
}

void selftest_init(struct selftest *t, struct server *server)
{
        *t = (struct selftest){ .work = { .run = run, .done = done }, .server = server };
        list_init(&t->waiting);
        t->timer = timer_new(&server->loop, on_timer, t);
        timer_start(t->timer, SELFTEST_DELAY_MS);
}

void selftest_release(struct selftest *t)
{
        t->timer = timer_free(t->timer);
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
