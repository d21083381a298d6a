/* inquiry: sends requests to clients, and finds what their answers belong to. */
#include "core/inquiry.h"

#include "base/limits.h"

bool inquiry_has_room(const struct client *c)
{
        return c->inquiry_count < LIMIT_INQUIRIES;
}

void inquiry_begin(struct inquiry *i, struct client *c, const char *method, size_t hint, struct jsonw *ret)
{
        i->client = c;
        i->id = ++c->last_inquiry;
        list_append(&c->inquiries, &i->link);
        c->inquiry_count++;
        conn_request_begin(c->conn, &(struct rpc_id){ .number = i->id }, method, hint, ret);
}

void inquiry_end(struct inquiry *i, struct jsonw *w)
{
        conn_request_end(i->client->conn, w);
}

void inquiry_cancel(struct inquiry *i)
{
        if (!i->client)
                return;
        i->client->inquiry_count--;
        i->client = NULL;
        list_remove(&i->link);
}

bool inquiry_take(struct client *c, const struct rpc_message *answer)
{
        struct inquiry *i;
        if (answer->id.is_string || answer->id.number < 1 || answer->id.number > c->last_inquiry)
                return false;
        list_each (i, &c->inquiries, link)
                if (i->id == answer->id.number) {
                        inquiry_cancel(i);
                        i->answered(i, answer);
                        break;
                }
        return true;
}

void inquiries_drop_all(struct client *c)
{
        struct inquiry *i;
        while ((i = list_first(&c->inquiries, struct inquiry, link))) {
                inquiry_cancel(i);
                i->lost(i);
        }
}
