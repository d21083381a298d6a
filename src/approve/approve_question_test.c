/* approve_question_test: questions, the answers that nobody gives, limits, and what is granted for a session. */
#include "approve/approve_rig.h"

#include "base/arena.h"
#include "base/limits.h"
#include "base/mem.h"

TEST(a_grant_for_the_session_is_for_the_same_action_only)
{
        struct person who;
        _buf_ struct buf out = BUF_INIT(4096);
        struct jsonw w;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        who.is_quick = true;
        who.answer_now = APPROVAL_FOR_SESSION;
        for (int i = 0; i < 3; i++) {
                struct approval *p = begin(&who, APPROVAL_REQUIRE_ESCALATED);
                note(&who, p);
                approval_free(p);
        }
        struct approval *p = begin(
                &who,
                APPROVAL_USE_DEFAULT); /* an action that may run outside of the sandbox is not tried inside first */
        note(&who, p);
        approval_free(p);
        eq_str(who.seen.p, "escalated/outside RUN-OUTSIDE RUN-OUTSIDE RUN-OUTSIDE RUN-OUTSIDE");

        buf_truncate(&who.seen, 0);
        const char *const other[] = { "make", NULL };
        struct approval_action actions[] = {
                { .environment_id = "far", .cwd = "/w", .argv = make },
                { .environment_id = "local", .cwd = "/", .argv = make },
                { .environment_id = "local", .cwd = "/w", .argv = other },
                { .environment_id = "local", .cwd = "/w", .argv = make, .tty = true },
                { .environment_id = "local", .cwd = "/w", .paths = two_files },
        };
        for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
                p = approval_new(who.approvals, &actions[i], on_change, &who);
                note(&who, p);
                approval_free(p);
        }
        eq_str(who.seen.p, "RUN RUN RUN RUN RUN");
        jsonw_begin(&w, &out);
        approvals_write_grants(who.approvals, &w);
        ok(jsonw_end(&w) == 0);
        eq_str(out.p, "[{\"kind\":\"command\",\"environment_id\":\"local\",\"command\":[\"make\",\"all\"],"
                      "\"tty\":false,\"cwd\":\"/w\",\"outside_sandbox\":true}]");
        person_end(&who);
}

TEST(nobody_to_ask_means_no)
{
        struct err err = ERR_INIT;
        struct approvals *a = approvals_new(APPROVAL_ON_REQUEST, READ_ONLY, NULL, &err);
        struct approval_action action = { .argv = make, .wish = APPROVAL_REQUIRE_ESCALATED };
        struct approval *p = approval_new(a, &action, on_change, NULL);

        eq_int(approval_state(p), APPROVAL_REFUSED);
        approval_free(p);
        action.wish = APPROVAL_USE_DEFAULT;
        p = approval_new(a, &action, on_change, NULL);
        approval_ran(p, true, NULL, 0);
        eq_int(approval_state(p), APPROVAL_OVER);
        approval_free(p);
        approvals_free(a);
}

TEST(a_lost_asker_answers_open_questions_with_no)
{
        struct person who;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        struct approval *first = begin(&who, APPROVAL_REQUIRE_ESCALATED);
        struct approval *second = begin(&who, APPROVAL_USE_DEFAULT);
        approval_ran(second, true, NULL, 0);
        eq_u64(approvals_open_count(who.approvals), 2);
        approvals_lose_asker(who.approvals);
        eq_int(approval_state(first), APPROVAL_REFUSED);
        eq_int(approval_state(second), APPROVAL_OVER);
        eq_int(who.changes, 2);
        struct approval *third = begin(&who, APPROVAL_REQUIRE_ESCALATED);
        eq_int(approval_state(third), APPROVAL_REFUSED);
        approval_free(first);
        approval_free(second);
        approval_free(third);
        person_end(&who);
}

TEST(a_freed_action_withdraws_its_question)
{
        struct person who;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        struct approval *p = begin(&who, APPROVAL_REQUIRE_ESCALATED);
        approval_free(p);
        eq_str(who.seen.p, "escalated/outside withdrawn");
        ok(!approvals_answer(who.approvals, who.id, APPROVAL_ONCE));
        person_end(&who);
}

TEST(beyond_the_limit_of_open_questions_the_answer_is_no)
{
        struct approval *open[LIMIT_APPROVAL_QUESTIONS + 1];
        struct person who;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        who.seen.cap = 65536;
        for (size_t i = 0; i < ARRAY_LEN(open); i++) {
                open[i] = begin(&who, APPROVAL_REQUIRE_ESCALATED);
                eq_int(approval_state(open[i]),
                       i < LIMIT_APPROVAL_QUESTIONS ? APPROVAL_ASKING : APPROVAL_REFUSED);
        }
        for (size_t i = 0; i < ARRAY_LEN(open); i++)
                approval_free(open[i]);
        person_end(&who);
}

TEST(what_is_too_long_to_be_read_is_not_asked_about)
{
        static char word[LIMIT_APPROVAL_QUESTION_BYTES + 1];
        const char *argv[] = { "echo", word, NULL }, *paths[] = { "/a", word, NULL },
                   *real_paths[] = { "/a", NULL };
        struct approval_action actions[] = {
                { .environment_id = "here", .cwd = "/", .argv = argv },
                { .environment_id = "here", .cwd = "/", .paths = paths },
                { .environment_id = "here", .cwd = "/", .paths = paths, .justification = word },
                { .environment_id = "here", .cwd = word, .argv = argv },
        };
        struct person who;

        person_begin(&who, APPROVAL_UNTRUSTED, READ_ONLY);
        for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
                for (size_t n = LIMIT_APPROVAL_QUESTION_BYTES / 2 - 20; n <= LIMIT_APPROVAL_QUESTION_BYTES;
                     n += LIMIT_APPROVAL_QUESTION_BYTES / 2 + 20) {
                        bool is_twice = actions[i].justification || actions[i].cwd == word;
                        bool is_long = n * (is_twice ? 2 : 1) >= LIMIT_APPROVAL_QUESTION_BYTES;
                        memset(word, 'x', n);
                        word[n] = '\0';
                        struct approval *p = approval_new(who.approvals, &actions[i], on_change, &who);
                        if (actions[i].paths)
                                approval_looked(p, real_paths);
                        eq_int(approval_state(p), is_long ? APPROVAL_REFUSED : APPROVAL_ASKING);
                        approval_free(p);
                }
        }
        person_end(&who);
}

TEST(the_oldest_grant_is_forgotten_beyond_the_limit)
{
        struct person who;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        who.is_quick = true;
        who.answer_now = APPROVAL_FOR_SESSION;
        who.seen.cap = 1 << 20;
        for (unsigned i = 0; i < LIMIT_APPROVAL_GRANTS + 2; i++) {
                _free_ char *number = mem_printf("%u", i % (LIMIT_APPROVAL_GRANTS + 1));
                const char *const argv[] = { "echo", number, NULL };
                struct approval_action action = { .argv = argv, .wish = APPROVAL_REQUIRE_ESCALATED };
                uint64_t before = who.id;
                struct approval *p = approval_new(who.approvals, &action, on_change, &who);
                eq_int(approval_state(p), APPROVAL_RUN);
                ok(who.id >
                   before); /* each action is asked about; number 0 comes again at the end, when its grant is gone */
                approval_free(p);
        }
        person_end(&who);
}
