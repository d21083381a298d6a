/* boxes: from the `sandbox` of a process/start to the image that its keeper works from.
 *
 * What is the same for all commands is made once, at the first request: the filters of system calls, and what the kernel
 * offers. The rest looks at the file system, so it runs on the pool (job.h).
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "sandbox/seccomp.h"

#include <pthread.h>

struct process_start;

struct boxes {
        pthread_mutex_t lock;
        struct seccomp_filter
                filters[2]; /* without and with the machine's network; code NULL: not made yet */
        int landlock_abi;
};

void boxes_init(struct boxes *b);
void boxes_release(struct boxes *b);

/* Must something be enforced? Otherwise the command runs plainly, though it was asked for with a sandbox. */
NODISCARD bool boxes_must_enforce(const struct process_start *in);

/* From any thread. `env`: of the command. A descriptor, or -errno with err as the client sees it. */
NODISCARD int boxes_image(struct boxes *b, struct arena *a, const struct process_start *in,
                          const char *const *env, struct err *err);

/* Why a start failed that had an image: the words for the client. */
void boxes_explain_failure(int image_fd, const char *step, int os_errno, uint32_t op, struct err *err);
