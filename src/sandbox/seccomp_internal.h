/* seccomp_internal: the filter under construction, which seccomp.c (filters of commands) and seccomp_files.c (filter of an
 * fs helper) share. */
#pragma once

#include "sandbox/seccomp.h"

#include <seccomp.h>

/* Calls that are newer than libseccomp; their numbers are the same on every architecture. */
#define NR_OPEN_TREE_ATTR 467
#define NR_FCHMODAT2 452
#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466
#define NR_FILE_SETATTR 469
#define NR_PROCESS_MRELEASE 448

/* A filter under construction; the first error is kept. */
struct builder {
        scmp_filter_ctx ctx;
        int r;
};

static inline struct scmp_arg_cmp arg_has(unsigned arg, uint32_t mask, uint32_t value)
{
        return (struct scmp_arg_cmp){ arg, SCMP_CMP_MASKED_EQ, mask, value };
}

static inline struct scmp_arg_cmp arg_is(unsigned arg, uint32_t value)
{
        return arg_has(arg, UINT32_MAX, value);
}

/* Adds the calls that SECCOMP_FILES allows. */
void seccomp_allow_file_calls(struct builder *b);
