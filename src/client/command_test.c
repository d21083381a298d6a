/* command_test: how limits and the policy of variables are written into a start, and what is refused before it. */
#include "client/client_rig.h"

#include <errno.h>

static const char *const argv[] = { "x", NULL };

TEST(limits_and_a_policy_are_written)
{
        static const char *const exclude[] = { "A*", NULL }, *const set[] = { "B=1", "C=", NULL };
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_limits limits = FARHAND_LIMITS_INIT;
        struct farhand_env_policy policy = FARHAND_ENV_POLICY_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        limits.wall_ms = 5;
        limits.file_bytes = UINT64_C(9223372036854775807);
        policy.inherit = FARHAND_INHERIT_CORE;
        policy.with_secrets = true;
        policy.exclude = exclude;
        policy.set = set;
        command.argv = argv;
        command.limit = &limits;
        command.policy = &policy;
        struct farhand_process *p = farhand_start(f, &command, NULL, NULL, NULL);
        ok(p != NULL);
        const char *sent = played_sent(f, server);
        ok(strstr(sent,
                  ",\"envPolicy\":{\"inherit\":\"core\",\"ignoreDefaultExcludes\":true,\"exclude\":[\"A*\"],"
                  "\"set\":{\"B\":\"1\",\"C\":\"\"},\"includeOnly\":[]},") != NULL);
        ok(strstr(sent, ",\"limits\":{\"wallMs\":5,\"fileBytes\":9223372036854775807}") != NULL);
        ok(!farhand_process_start_answer(p));
        played_say(f, server,
                   "{\"id\":1,\"result\":{\"processId\":\"p\",\"limits\":{\"wallMs\":\"timer\"}}}\n");
        eq_str(farhand_process_start_answer(p), "{\"processId\":\"p\",\"limits\":{\"wallMs\":\"timer\"}}");
        farhand_free(f);
        fd_close(server);
}

TEST(what_a_command_must_not_say_is_refused_before_it_is_sent)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_error error;
        struct farhand_limits limits = FARHAND_LIMITS_INIT;
        struct farhand_env_policy policy = FARHAND_ENV_POLICY_INIT;
        struct farhand_command twice = FARHAND_COMMAND_INIT, wrong = FARHAND_COMMAND_INIT;
        twice.argv = wrong.argv = argv;
        twice.limit = &limits;
        twice.limits = "{}";
        ok(!farhand_start(f, &twice, NULL, NULL, &error) && error.code == -EINVAL);
        wrong.policy = &policy;
        policy.inherit = (enum farhand_inherit)3;
        ok(!farhand_start(f, &wrong, NULL, NULL, &error) && error.code == -EINVAL);
        policy.inherit = FARHAND_INHERIT_ALL;
        policy.size = 0;
        ok(!farhand_start(f, &wrong, NULL, NULL, &error) && error.code == -EINVAL);
        played_lose_capabilities(f, false);
        twice.limits = NULL;
        ok(!farhand_start(f, &twice, NULL, NULL, &error) && error.code == -EOPNOTSUPP);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}
