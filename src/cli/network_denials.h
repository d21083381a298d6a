/* network_denials: tells the person once about each host that a command was not let to. */
#pragma once

#include "cli/remote.h"

struct network_denials;

struct network_denials *network_denials_new(const struct remote *r);
void network_denials_free(struct network_denials *d); /* NULL is fine */
/* Takes what farhand_process_events.on_network_decision tells. */
void network_denials_take(struct network_denials *d, const struct farhand_network_decision *decision);
