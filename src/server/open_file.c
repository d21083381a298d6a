/* open_file: counts the users of open files, and closes the files on the pool. */
#include "server/open_file.h"

#include "base/fd.h"
#include "base/mem.h"
#include "core/server.h"
#include "loop/pool.h"

struct open_file {
        struct server *server;
        unsigned refs; /* used by the loop's thread only */
        int fd;
        char id[OPEN_FILE_ID_BYTES];
        size_t id_n;
        struct work closing;
};

static void close_run(struct work *w)
{
        struct open_file *h = container_of(w, struct open_file, closing);
        h->fd = fd_close(h->fd);
}

static void close_done(struct work *w)
{
        struct open_file *h = container_of(w, struct open_file, closing);
        fd_close(h->fd); /* still open when the pool was ended before it ran the work */
        free(h);
}

static struct open_file *open_file_new(struct server *s, struct slice id, int fd)
{
        struct open_file *h = mem_new(struct open_file);
        must(id.n <= OPEN_FILE_ID_BYTES);
        h->server = s;
        h->refs = 1;
        h->fd = fd;
        h->id_n = id.n;
        if (id.n)
                memcpy(h->id, id.p, id.n);
        h->closing = (struct work){ .run = close_run, .done = close_done };
        return h;
}

struct open_file *open_file_ref(struct open_file *h)
{
        h->refs++;
        return h;
}

struct open_file *open_file_unref(struct open_file *h)
{
        if (h && --h->refs == 0)
                pool_submit(h->server->pool, &h->closing);
        return NULL;
}

void open_file_close(struct server *s, int fd)
{
        if (fd >= 0)
                (void)open_file_unref(open_file_new(s, S(""), fd));
}

int open_file_fd(const struct open_file *h)
{
        return h->fd;
}

void open_file_put(struct map *handles, struct server *s, struct slice id, int fd)
{
        struct open_file *h = open_file_new(s, id, fd);
        map_put(handles, slice_from(h->id, h->id_n), h);
}

void open_file_drop(struct map *handles, struct slice id)
{
        open_file_unref(map_remove(handles, id));
}

void open_file_drop_all(struct map *handles)
{
        size_t pos = 0;
        struct open_file *h;
        while ((h = map_next(handles, &pos)))
                open_file_unref(h);
        map_release(handles);
}
