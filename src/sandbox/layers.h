/* layers: lets tests switch off one defence of a sandbox, to see that the others hold without it.
 *
 * In the product every defence is on: layers.c says so, and nothing at run time can change it. The program farhand-layers is
 * linked with tests/layers/layers.c instead, which reads environment variables. Only raw system calls
 * are made.
 */
#pragma once

#include "base/compat.h"

enum layer {
        LAYER_DETACH, /* the root of the machine is detached from a new view */
        LAYER_CHECK,  /* a view is compared with the plan before it is used */
        LAYER_CLOSED, /* no view shows files of the server */
        LAYER_FINISH, /* the system lets the server join the namespaces that bwrap has built */
        LAYER_LIST, /* the kernel can list the mounts of a namespace: no defence, but tests must also try older kernels */
        LAYERS,
};

NODISCARD bool layer_is_off(enum layer layer);
/* Returns the ABI of Landlock, or -errno, as the kernel reports it; tests can lower it. */
NODISCARD int layers_landlock_abi(int abi);
/* Called when a view has all its mounts, before and after the root of the machine is detached. In tests these functions put a
 * wrong mount into the view, which the check of the view must find. Return 0 or -errno. */
struct enter_view;
NODISCARD int layers_spoil_before_detach(const struct enter_view *v);
NODISCARD int layers_spoil_after_detach(const struct enter_view *v);
