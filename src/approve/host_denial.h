/* host_denial: says in words why a connection of a command was refused. */
#pragma once

/* Returns the words for a reason that a server gives; an unknown reason is returned as it is. */
const char *host_denial_text(const char *reason);
