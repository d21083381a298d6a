/* findings: the list of what `farhand doctor` has found; each finding becomes one line. */
#pragma once

#include "base/compat.h"

#define FINDINGS_MAX 32
#define FINDING_TEXT_BYTES 512

enum finding_status {
        FINDING_OK,
        FINDING_WARN, /* works, but less well; or something other than the sandbox does not work */
        FINDING_FAIL, /* something that a sandbox needs does not work */
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

/* Adds a finding with a formatted text, which may be cut. The caller may set os_errno and remedy of the returned finding. */
struct finding *findings_add(struct findings *f, const char *name, enum finding_status status,
                             const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Adds the result of a call: "works" when `r` is 0, otherwise the errno in `r` and the remedy. */
void findings_add_result(struct findings *f, const char *name, enum finding_status when_not, int r,
                         const char *remedy);

/* Tries each feature of the kernel that a sandbox needs, in a process of its own (findings_kernel.c). */
void findings_kernel(struct findings *f);
/* Reports which back end the server would choose, and why not the others (findings_backends.c). */
struct backends;
void findings_backends(struct findings *f, const struct backends *b);
/* Checks what a server needs besides the sandbox: cgroups, terminals, limits, programs, directories (findings_host.c). */
void findings_host(struct findings *f);
