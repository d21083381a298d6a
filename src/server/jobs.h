/* jobs: the part of a connection that server/job.h works on. */
#pragma once

#include "base/list.h"

struct jobs {
        struct list all;     /* job::link, in order of arrival */
        struct list streams; /* job::stream_link: answers in pieces; the first one is being sent */
        unsigned count, running, held;
        bool is_pumping, must_pump_again, is_replaying;
};
