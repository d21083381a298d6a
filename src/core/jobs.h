/* jobs: the jobs (core/job.h) of one client. */
#pragma once

#include "base/list.h"
#include "loop/loop.h"

struct jobs {
        struct list all;     /* job::link, in order of arrival */
        struct list streams; /* job::stream_link: jobs that answer in pieces; the first is being sent */
        unsigned count, running, held;
        unsigned unordered;    /* how many of `count` are unordered */
        unsigned inherited;    /* changes of earlier connections of the session that threads still work on */
        unsigned quick;        /* requests answered without a thread since the last answers were sent */
        struct deferred awake; /* runs when jobs that waited may begin */
        bool is_pumping, must_pump_again;
};
