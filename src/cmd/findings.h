/* findings: what `farhand doctor` has found, one line of it each. */
#pragma once

#include "base/compat.h"

#define FINDINGS_MAX 32
#define FINDING_TEXT_BYTES 512

enum finding_status {
        FINDING_OK,
        FINDING_WARN, /* works, but less well, or something beside the sandbox does not */
        FINDING_FAIL, /* a sandbox needs it */
};

struct finding {
        const char *name; /* a literal: "user namespaces" */
        enum finding_status status;
        int os_errno;       /* 0: none */
        const char *remedy; /* a literal, or NULL */
        char text[FINDING_TEXT_BYTES];
};

struct findings {
        size_t count;
        struct finding list[FINDINGS_MAX];
};

/* The text may be cut. The caller may set os_errno and remedy. */
struct finding *findings_add(struct findings *f, const char *name, enum finding_status status,
                             const char *fmt, ...) PRINTF_LIKE(4, 5);
/* A call that answered `r`: "works", or its errno with the remedy. */
void findings_add_result(struct findings *f, const char *name, enum finding_status when_not, int r,
                         const char *remedy);

/* What a sandbox asks of the kernel, each in a process of its own (findings_kernel.c). */
void findings_kernel(struct findings *f);
/* Which back end would be chosen, and why not the others (findings_backends.c). */
struct backends;
void findings_backends(struct findings *f, const struct backends *b);
/* What stands around it: cgroups, terminals, limits, programs, directories (findings_host.c). */
void findings_host(struct findings *f);
