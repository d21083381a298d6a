/* report: the results as a table for people (Markdown, so that it can be quoted) and as JSON for machines. */
#pragma once

#include "results.h"

#include <stdio.h>

struct report {
        const char *server, *reference; /* programs; reference NULL = none */
        unsigned rounds;
        double seconds; /* the whole run */
        struct results *results;
        size_t count;
};

void report_table(const struct report *r, FILE *to);
void report_json(const struct report *r, FILE *to);
