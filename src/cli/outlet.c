/* outlet: writes to a descriptor of this program as fast as its reader takes the bytes. */
#include "cli/outlet.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

void outlet_init(struct outlet *o, int fd)
{
        *o = (struct outlet){ .fd = fd, .bytes = BUF_INIT(OUTLET_MAX_BYTES) };
}

void outlet_release(struct outlet *o)
{
        buf_release(&o->bytes);
}

static void drop(struct outlet *o, int os_errno)
{
        o->is_broken = true;
        o->os_errno = os_errno;
        buf_release(&o->bytes);
        o->at = 0;
}

void outlet_put(struct outlet *o, const void *bytes, size_t n)
{
        /* Written bytes must not fill an outlet that is never empty. */
        if (o->at >= outlet_waiting(o)) {
                buf_consume(&o->bytes, o->at);
                o->at = 0;
        }
        if (!o->is_broken && buf_append(&o->bytes, slice_from(bytes, n)) < 0)
                drop(o, ENOBUFS);
        outlet_flush(o);
}

void outlet_flush(struct outlet *o)
{
        while (!o->is_broken && outlet_waiting(o) > 0) {
                struct pollfd room = { .fd = o->fd, .events = POLLOUT };
                if (poll(&room, 1, 0) <= 0)
                        return;
                ssize_t n = write(o->fd, o->bytes.p + o->at, MIN(outlet_waiting(o), (size_t)PIPE_BUF));
                if (n < 0 && (errno == EINTR || errno == EAGAIN))
                        return;
                if (n < 0) {
                        drop(o, errno);
                        return;
                }
                o->at += (size_t)n;
        }
        buf_truncate(&o->bytes, 0);
        o->at = 0;
}
