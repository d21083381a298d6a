/* fuzz_linux_sandbox: any words, one in each line, as arguments of codex-linux-sandbox. Arguments that are accepted give a command,
 * absolute directories, and a profile that can be resolved to rules or to an error. */
#include "base/buf.h"
#include "base/mem.h"
#include "proto/linux_sandbox.h"

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_decoded(struct arena *a, const struct linux_sandbox *w, size_t argc)
{
        struct err err = ERR_INIT;
        struct rules rules;
        must(w->command_at > 0 && w->command_at < argc);
        must(!w->command_cwd.p || w->command_cwd.p[0] == '/');
        must(w->context.profile.count <= PROFILE_ENTRIES_MAX);
        struct place place = sandbox_context_place(&w->context, S("/cwd"), S("/tmp"));
        must(place.cwd.p && place.cwd.p[0] == '/');
        int r = rules_resolve(a, &w->context.profile, &place, &rules, &err);
        must((r < 0) == (err.text[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice argv[WORDS_MAX] = { S(LINUX_SANDBOX_NAME) }, rest = slice_from(data, size);
        struct err err = ERR_INIT;
        struct linux_sandbox w;
        size_t argc = 1;

        while (rest.p && argc < WORDS_MAX) {
                struct slice word = slice_split(&rest, '\n');
                if (slice_has_nul(word))
                        return 0; /* neither execve nor process/start passes such a word */
                argv[argc++] = slice_from_str(arena_dup(&a, word));
        }
        if (linux_sandbox_decode(&a, argv, argc, &w, &err) < 0)
                must(err.text[0] != '\0' && err.client_code != 0);
        else
                check_decoded(&a, &w, argc);
        return 0;
}
