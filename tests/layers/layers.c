/* layers: variables of the environment switch off defences of a sandbox, or make a mistake in its mounts. This file takes the
 * place of src/sandbox/layers.c in the program farhand-layers, which only the tests run.
 *
 *     FARHAND_LAYERS_OFF       a list of the defences to leave out: detach, check, closed, finish, list
 *     FARHAND_LAYERS_LEAK=var  the machine's /var is mounted on the root of the command, where `..` leads
 *     FARHAND_LAYERS_LINGER=N  the machine's root stays for N milliseconds on a view that is complete
 *     FARHAND_LANDLOCK_ABI=N   Landlock has at most this ABI; 0: there is none
 */
#include "sandbox/layers.h"

#include "sandbox/enter.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_off[LAYERS];
static const char *leak_name;
static int abi_max = -1;
static long linger_ms;

/* Reads the variables before main: the functions below may be called where no function of libc may be used. */
__attribute__((constructor)) static void variables_read(void)
{
        const char *off = getenv("FARHAND_LAYERS_OFF"), *abi = getenv("FARHAND_LANDLOCK_ABI"),
                   *linger = getenv("FARHAND_LAYERS_LINGER");
        static const char *const names[LAYERS] = {
                [LAYER_DETACH] = "detach", [LAYER_CHECK] = "check", [LAYER_CLOSED] = "closed",
                [LAYER_FINISH] = "finish", [LAYER_LIST] = "list",
        };
        for (int i = 0; off && i < LAYERS; i++)
                is_off[i] = strstr(off, names[i]) != NULL;
        leak_name = getenv("FARHAND_LAYERS_LEAK");
        abi_max = abi ? (int)strtol(abi, NULL, 10) : -1;
        linger_ms = linger ? strtol(linger, NULL, 10) % 1000 : 0;
}

bool layer_is_off(enum layer layer)
{
        return is_off[layer];
}

int layers_landlock_abi(int abi)
{
        if (abi_max < 0 || abi < 0)
                return abi;
        return abi_max == 0 ? -ENOSYS : MIN(abi, abi_max);
}

static int leak_tree = -1; /* descriptor of the tree that is mounted by mistake */

int layers_spoil_before_detach(const struct enter_view *v)
{
        const struct timespec ts = { .tv_nsec = linger_ms * 1000000 };
        if (linger_ms > 0)
                (void)sys_call2(SYS_nanosleep, &ts, NULL);
        leak_tree = leak_name ? sys_tree_copy(v->old, leak_name) : -1;
        return leak_name ? MIN(leak_tree, 0) : 0;
}

int layers_spoil_after_detach(const struct enter_view *v)
{
        if (!leak_name)
                return 0;
        int r = sys_tree_attach(leak_tree, v->root, "");
        sys_close(leak_tree);
        return r;
}
