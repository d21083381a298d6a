/* lists_test: what the lists of processes and sessions ask for and read. */
#include "client/client_rig.h"

#include "base/mem.h"

#include <errno.h>

static char told[1024];

static void note_process(UNUSED void *arg, const struct farhand_process_info *info)
{
        size_t at = strlen(told);
        (void)snprintf(told + at, sizeof(told) - at, "%s %s %s %s %d %d %d %d %s;", info->process_id,
                       info->session_id ? info->session_id : "-", info->argv[0] ? info->argv[0] : "-",
                       info->cwd ? info->cwd : "-", (int)info->pid, info->is_running, info->exit.code,
                       (int)info->next_seq, info->sandbox_type ? info->sandbox_type : "-");
}

static void note_session(UNUSED void *arg, const struct farhand_session_info *info)
{
        size_t at = strlen(told);
        (void)snprintf(told + at, sizeof(told) - at, "%s %s %d %d %d %d;", info->session_id,
                       info->client_name ? info->client_name : "-", info->is_attached, (int)info->created_ms,
                       (int)info->expires_ms, (int)info->processes);
}

TEST(processes_are_told_and_those_that_nobody_can_name_are_not)
{
        static const char answer[] =
                "{\"id\":1,\"result\":{\"processes\":[{\"processId\":\"p\",\"sessionId\":\"s2\",\"argv\":["
                "\"sh\","
                "\"-c\"],\"cwd\":\"file:///"
                "a%20b\",\"tty\":true,\"pid\":7,\"startedAtMs\":1,\"running\":false,"
                "\"closed\":true,\"exitCode\":3,\"lastOutputAtMs\":null,\"nextSeq\":9,\"sandboxType\":"
                "\"none\"},"
                "{\"processId\":\"q\",\"argv\":[],\"cwd\":null,\"pid\":null,\"running\":true,\"exitCode\":"
                "null},"
                "{\"processId\":\"a\\u0000b\",\"argv\":[]},{\"processId\":\"r\",\"argv\":[\"a\\u0000b\"]},"
                "{\"processId\":7,\"argv\":[]},{\"processId\":\"r\"},{\"processId\":\"r\",\"argv\":[7]},7,"
                "null]}}\n";
        int server;
        struct farhand *f = played_client(&server);
        told[0] = '\0';
        played_queue(server, answer);
        eq_int(farhand_list_processes(f, NULL, note_process, NULL, NULL), 0);
        eq_str(played_sent(f, server), "{\"id\":1,\"method\":\"process/list\",\"params\":{}}\n");
        eq_str(told, "p s2 sh /a b 7 0 3 9 none;q - - - -1 1 -1 0 -;");
        farhand_free(f);
        fd_close(server);
}

TEST(a_query_says_which_processes)
{
        int server;
        struct farhand *f = played_client(&server);
        struct farhand_process_query query = FARHAND_PROCESS_QUERY_INIT;
        query.process_id = "p";
        query.session_id = "s2";
        played_queue(server, "{\"id\":1,\"result\":{\"processes\":[]}}\n");
        eq_int(farhand_list_processes(f, &query, note_process, NULL, NULL), 0);
        eq_str(played_sent(f, server), "{\"id\":1,\"method\":\"process/"
                                       "list\",\"params\":{\"processId\":\"p\",\"sessionId\":\"s2\"}}\n");
        query.all_sessions = true;
        eq_int(farhand_list_processes(f, &query, note_process, NULL, NULL), -EINVAL);
        query.session_id = NULL;
        played_queue(server, "{\"id\":2,\"result\":{}}\n");
        eq_int(farhand_list_processes(f, &query, note_process, NULL, NULL), -EPROTO);
        eq_str(played_sent(f, server), "{\"id\":2,\"method\":\"process/"
                                       "list\",\"params\":{\"processId\":\"p\",\"scope\":\"server\"}}\n");
        played_lose_capabilities(f, false);
        eq_int(farhand_list_processes(f, NULL, note_process, NULL, NULL), -EOPNOTSUPP);
        eq_int(farhand_list_sessions(f, note_session, NULL, NULL), -EOPNOTSUPP);
        eq_str(played_sent(f, server), "");
        farhand_free(f);
        fd_close(server);
}

TEST(sessions_are_told)
{
        int server;
        struct farhand *f = played_client(&server);
        told[0] = '\0';
        played_queue(server,
                     "{\"id\":1,\"result\":{\"sessions\":[{\"sessionId\":\"s\",\"clientName\":\"me\","
                     "\"attached\":true,\"createdAtMs\":5,\"expiresAtMs\":null,\"processes\":2},"
                     "{\"sessionId\":\"t\",\"clientName\":\"\\u0000\",\"createdAtMs\":6,\"expiresAtMs\":7},"
                     "{},7]}}\n");
        eq_int(farhand_list_sessions(f, note_session, NULL, NULL), 0);
        eq_str(played_sent(f, server), "{\"id\":1,\"method\":\"session/list\",\"params\":{}}\n");
        eq_str(told, "s me 1 5 0 2;t - 0 6 7 0;");
        farhand_free(f);
        fd_close(server);
}
