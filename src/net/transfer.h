/* transfer: one HTTP request on its way: its curl handle, its redirects, its credit.
 *
 * Redirects are followed here, hop by hop, not by libcurl: which method, body and headers go along is ours to say. What
 * comes of a transfer goes into the link as messages: at most one HEAD, DATA within the credit, one END, which frees it.
 */
#pragma once

#include "base/list.h"
#include "wire/netmsg.h"
#include "wire/weburl.h"

#include <curl/curl.h>

struct link;
struct transfer;

struct transfers {
        CURLM *multi;
        struct link *link;
        struct list all; /* transfer::link */
        size_t count;
        const char *ca_file, *ca_dir; /* NULL: those of the system */
};

NODISCARD int transfers_init(struct transfers *ts, struct link *link);
void transfers_release(struct transfers *ts);

/* What the server says. -EPROTO when it makes no sense; an id that is not there is no error: it may have ended. */
NODISCARD int transfers_take(struct transfers *ts, const struct netmsg *m);
/* Moves everything that can move. */
void transfers_perform(struct transfers *ts);
