/* reload: reads the configuration again on a thread, and applies what may change. */
#include "core/reload.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>

/* One reading of the configuration. The thread uses only this struct, so that the server can end while the thread is stuck. */
struct reading {
        struct work work;
        struct reload *reload;
        const struct config_source *source;
        struct config fixed; /* only the values of the live configuration that cannot change */
        struct config fresh;
        struct err err;
        int result;
};

/* Tries to open the controlling terminal. Returns 0 or -errno. */
static int terminal_ask(void)
{
        _close_ int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        return fd < 0 ? -errno : 0;
}

/* Returns true only for errors that mean "gone", not when descriptors or memory are missing. */
static bool is_terminal_gone(void)
{
        int r = terminal_ask();
        return r == -ENXIO || r == -EIO;
}

void reload_init(struct reload *r, struct pool *pool, struct config *live, const struct config_source *source)
{
        *r = (struct reload){
                .pool = pool, .live = live, .source = source, .had_terminal = terminal_ask() == 0
        };
}

static void on_difference(const char *key)
{
        log_warn("a changed setting needs a restart", "key=%s", key);
}

/* Runs on a thread. */
static void reading_run(struct work *w)
{
        struct reading *one = container_of(w, struct reading, work);
        one->result = one->source->read(one->source, &one->fresh, &one->err);
        if (one->result < 0)
                return;
        config_keep_fixed(&one->fresh, &one->fixed, on_difference);
        one->result = config_check(&one->fresh, &one->err);
}

/* Swaps the values, so that releasing `fresh` frees the old configuration. */
static void take(struct config *live, struct config *fresh)
{
        struct config old = *live;
        *live = *fresh;
        *fresh = old;
        log_set_level(live->log_level);
        log_set_format(live->log_format);
}

static void start(struct reload *r);

static void reading_done(struct work *w)
{
        struct reading *one = container_of(w, struct reading, work);
        struct reload *r = one->reload;
        if (one->result < 0) {
                log_error("configuration kept", "why=%s", log_quote(slice_from_str(one->err.text)));
        } else if (!w->is_cancelled) {
                take(r->live, &one->fresh);
                log_info("configuration read again");
        }
        r->is_reading = false;
        bool is_over = w->is_cancelled;
        config_release(&one->fixed);
        config_release(&one->fresh);
        free(one);
        if (r->is_wanted && !is_over)
                start(r);
}

static void start(struct reload *r)
{
        struct reading *one = mem_new(struct reading);
        *one = (struct reading){
                .work = { .run = reading_run, .done = reading_done },
                .reload = r,
                .source = r->source,
                .err = ERR_INIT,
        };
        config_init(&one->fixed);
        config_keep_fixed(&one->fixed, r->live, NULL);
        config_init(&one->fresh);
        r->is_reading = true;
        r->is_wanted = false;
        pool_submit(r->pool, &one->work);
}

bool reload_hang_up(struct reload *r)
{
        if (r->had_terminal && is_terminal_gone())
                return false;
        if (r->is_reading)
                r->is_wanted = true;
        else
                start(r);
        return true;
}
