/* transfer: runs one HTTP request with libcurl: its handle, its redirects, its credit.
 *
 * Redirects are followed here, hop by hop, and not by libcurl, because method, body and headers of the next hop follow our
 * rules (redirect.h). A transfer queues its results on the link: at most one HEAD, DATA within the credit, and one END, which
 * frees the transfer.
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
        const char *ca_file, *ca_dir; /* certificate authorities; NULL: those of the system */
};

NODISCARD int transfers_init(struct transfers *ts, struct link *link);
void transfers_release(struct transfers *ts);

/* Handles a message of the server. Returns 0, or -EPROTO when the message breaks the protocol. An unknown id is no error: its
 * transfer may have ended. */
NODISCARD int transfers_take(struct transfers *ts, const struct netmsg *m);
/* Lets libcurl do what can be done without waiting, and ends the transfers that are finished. */
void transfers_perform(struct transfers *ts);
