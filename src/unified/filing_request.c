/* filing_request: requests for files of a call to its server, one after the other. A request outlives its call: the answer then goes nowhere. */
#include "unified/table_internal.h"

#include "base/mem.h"

struct filing_request {
        struct list link;          /* unified::filing_requests */
        struct unified_call *call; /* NULL: nobody waits for it any more */
};

static void request_free(struct filing_request *r)
{
        list_remove(&r->link);
        free(r);
}

static void on_answer(UNUSED struct farhand *f, void *arg, const char *result,
                      const struct farhand_error *error)
{
        struct filing_request *r = arg;
        struct unified_call *c = r->call;
        request_free(r);
        if (!c)
                return;
        struct filing_state *s = &c->file;
        s->request = NULL;
        free(s->result);
        s->result = result ? mem_strdup(result) : NULL;
        if (error)
                s->error = *error;
        c->table->is_due = true;
}

bool filing_request_begin(struct unified_call *c, const char *method, const char *params, bool is_repeatable)
{
        struct filing_request *r = mem_new(struct filing_request);
        struct filing_state *s = &c->file;
        r->call = c;
        list_append(&c->table->filing_requests, &r->link);
        s->request = r;
        if (farhand_call(c->host->client, method, params, is_repeatable ? FARHAND_REPEAT : 0, on_answer, r,
                         &s->error) == 0)
                return true;
        s->request = NULL;
        request_free(r);
        return false;
}

void filing_request_forget(struct unified_call *c)
{
        if (c->file.request)
                c->file.request->call = NULL;
        c->file.request = NULL;
}

void filing_requests_release(struct unified *u)
{
        while (!list_is_empty(&u->filing_requests))
                request_free(list_first(&u->filing_requests, struct filing_request, link));
}
