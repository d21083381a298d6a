/* cp_progress: the line on a terminal that says how far a copy is. */
#include "base/clock.h"
#include "base/printable.h"
#include "farfs/cp.h"

#include <inttypes.h>
#include <unistd.h>

#define SHOW_MS 200
#define LINE_MAX_BYTES 78 /* a longer line would break, and could not be removed */

void cp_progress_begin(struct cp *cp)
{
        cp->progress.is_shown = !cp->is_quiet && isatty(STDERR_FILENO) == 1;
        cp->progress.begun_ms = cp->progress.shown_ms = clock_mono_ms();
}

void cp_progress_clear(struct cp *cp)
{
        if (cp->progress.is_shown)
                fprintf(stderr, "\r\033[K");
}

/* Writes a number of bytes as people read it, with three digits at most: "1.5 GB". */
static const char *amount(double n, char text[16])
{
        static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
        size_t i = 0;
        for (; n >= 999.5 && i + 1 < ARRAY_LEN(units); i++)
                n /= 1000;
        (void)snprintf(text, 16, i == 0 || n >= 99.95 ? "%.0f %s" : "%.1f %s", n, units[i]);
        return text;
}

void cp_progress_update(struct cp *cp)
{
        uint64_t now = cp->progress.is_shown ? clock_mono_ms() : 0;
        if (!cp->progress.is_shown || now < cp->progress.shown_ms + SHOW_MS)
                return;
        cp->progress.shown_ms = now;
        char line[256], so_far[16], rate_text[16];
        uint64_t in_file = cp->progress.file_size > 0 ? cp->progress.file_done : 0;
        uint64_t bytes = cp->counts.bytes + in_file;
        double rate = (double)bytes * 1000 / (double)MAX(now - cp->progress.begun_ms, 1U);
        int n = snprintf(line, sizeof(line), "%" PRIu64 " files, %s, %s/s", cp->counts.files,
                         amount((double)bytes, so_far), amount(rate, rate_text));
        if (cp->progress.file_size > 0 && rate > 0) {
                uint64_t left = cp->progress.file_size - MIN(in_file, cp->progress.file_size);
                uint64_t seconds = (uint64_t)MIN((double)left / rate, 359999.0);
                _arena_ struct arena a = ARENA_INIT;
                (void)snprintf(line + n, sizeof(line) - (size_t)n,
                               ", %.0f%%, %" PRIu64 ":%02" PRIu64 " left: %.40s",
                               (double)in_file * 100 / (double)cp->progress.file_size, seconds / 60,
                               seconds % 60, printable_str(&a, cp->progress.name));
        }
        fprintf(stderr, "\r%.*s\033[K", LINE_MAX_BYTES, line);
}
