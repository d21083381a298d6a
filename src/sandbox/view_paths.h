/* view_paths: the settings of the kernel and the devices that a view has whatever its plan says.
 *
 * Each list holds paths without their leading slash and ends with NULL.
 */
#pragma once

#include <stddef.h>

/* The settings of the kernel in /proc: read-only in every view. */
static const char *const view_settings[] = {
        "proc/sys",           "proc/irq",        "proc/bus",  "proc/fs",
        "proc/sysrq-trigger", "proc/acpi",       "proc/scsi", "proc/driver",
        "proc/mtrr",          "proc/timer_list", NULL,
};
/* The devices that a view may have of its own; `dev/console` is the command's terminal. */
static const char *const view_devices[] = {
        "dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom", "dev/tty", "dev/console", NULL,
};
