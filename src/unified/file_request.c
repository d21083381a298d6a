/* file_request: requests for files of a call to its server, one after the other. A request outlives its call: the answer then goes nowhere. */
#include "unified/table_internal.h"

#include "base/mem.h"

struct file_request {
        struct list link;          /* unified::file_requests */
        struct unified_call *call; /* NULL: nobody waits for it any more */
};

static void request_free(struct file_request *r)
{
        list_remove(&r->link);
        free(r);
}

static void on_answer(UNUSED struct farhand *f, void *arg, const char *result,
                      const struct farhand_error *error)
{
        struct file_request *r = arg;
        struct unified_call *c = r->call;
        request_free(r);
        if (!c)
                return;
        struct file_state *s = &c->file;
        s->request = NULL;
        free(s->result);
        s->result = result ? mem_strdup(result) : NULL;
        if (error)
                s->error = *error;
        c->table->is_due = true;
}

bool file_request_begin(struct unified_call *c, const char *method, const char *params, bool is_repeatable)
{
        struct file_request *r = mem_new(struct file_request);
        struct file_state *s = &c->file;
        r->call = c;
        list_append(&c->table->file_requests, &r->link);
        s->request = r;
        if (farhand_call(c->host->client, method, params, is_repeatable ? FARHAND_REPEAT : 0, on_answer, r,
                         &s->error) == 0)
                return true;
        s->request = NULL;
        request_free(r);
        return false;
}

void file_request_forget(struct unified_call *c)
{
        if (c->file.request)
                c->file.request->call = NULL;
        c->file.request = NULL;
}

void file_requests_release(struct unified *u)
{
        while (!list_is_empty(&u->file_requests))
                request_free(list_first(&u->file_requests, struct file_request, link));
}
