/* client_events: the callbacks with which the server handles the events of its clients' connections. */
#pragma once

#include "core/client.h"

extern const struct conn_events client_events;
