/* approve_test: what each policy makes of each wish and denial, and programs about which rules ask. */
#include "approve/approve_rig.h"

#include "base/arena.h"
#include "base/limits.h"
#include "base/mem.h"

/* Plays an action of which each run is denied, with one answer to all questions. */
static const char *play(struct arena *a, enum approval_policy policy, const char *profile,
                        enum approval_wish wish, enum approval_answer answer)
{
        struct person who;

        person_begin(&who, policy, profile);
        struct approval *p = begin(&who, wish);
        note(&who, p);
        for (unsigned steps = 0; approval_state(p) != APPROVAL_OVER && approval_state(p) != APPROVAL_REFUSED;
             steps++) {
                ok(steps < 10);
                if (approval_state(p) == APPROVAL_ASKING)
                        ok(approvals_answer(who.approvals, who.id, answer));
                else
                        approval_ran(p, true, "[]", 0);
                note(&who, p);
        }
        eq_u64(approvals_open_count(who.approvals), 0);
        const char *seen = arena_dup(a, buf_slice(&who.seen));
        approval_free(p);
        person_end(&who);
        return seen;
}

TEST(each_policy_runs_asks_and_refuses_as_its_row_says)
{
        static const struct {
                enum approval_policy policy;
                enum approval_wish wish;
                const char *yes, *no;
        } rows[] = {
                { APPROVAL_NEVER, APPROVAL_USE_DEFAULT, "RUN over", "RUN over" },
                { APPROVAL_NEVER, APPROVAL_WITH_ADDITIONAL, "refused", "refused" },
                { APPROVAL_NEVER, APPROVAL_REQUIRE_ESCALATED, "refused", "refused" },
                { APPROVAL_ON_REQUEST, APPROVAL_USE_DEFAULT, "RUN denied/outside[] ? RUN-OUTSIDE over",
                  "RUN denied/outside[] ? over" },
                { APPROVAL_ON_REQUEST, APPROVAL_WITH_ADDITIONAL,
                  "additional/more ? RUN-MORE denied/outside[] ? RUN-OUTSIDE over",
                  "additional/more ? refused" },
                { APPROVAL_ON_REQUEST, APPROVAL_REQUIRE_ESCALATED, "escalated/outside ? RUN-OUTSIDE over",
                  "escalated/outside ? refused" },
                { APPROVAL_ON_FAILURE, APPROVAL_USE_DEFAULT, "RUN denied/outside[] ? RUN-OUTSIDE over",
                  "RUN denied/outside[] ? over" },
                { APPROVAL_ON_FAILURE, APPROVAL_WITH_ADDITIONAL, "RUN denied/more[] ? RUN-MORE over",
                  "RUN denied/more[] ? over" },
                { APPROVAL_ON_FAILURE, APPROVAL_REQUIRE_ESCALATED, "RUN denied/outside[] ? RUN-OUTSIDE over",
                  "RUN denied/outside[] ? over" },
                { APPROVAL_UNTRUSTED, APPROVAL_USE_DEFAULT,
                  "untrusted ? RUN denied/outside[] ? RUN-OUTSIDE over", "untrusted ? refused" },
                { APPROVAL_UNTRUSTED, APPROVAL_WITH_ADDITIONAL,
                  "additional/more ? RUN-MORE denied/outside[] ? RUN-OUTSIDE over",
                  "additional/more ? refused" },
                { APPROVAL_UNTRUSTED, APPROVAL_REQUIRE_ESCALATED, "escalated/outside ? RUN-OUTSIDE over",
                  "escalated/outside ? refused" },
        };
        _arena_ struct arena a = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                eq_str(play(&a, rows[i].policy, READ_ONLY, rows[i].wish, APPROVAL_ONCE), rows[i].yes);
                eq_str(play(&a, rows[i].policy, READ_ONLY, rows[i].wish, APPROVAL_NO), rows[i].no);
        }
}

TEST(without_restrictions_only_untrusted_asks)
{
        _arena_ struct arena a = ARENA_INIT;

        for (int policy = 0; policy < APPROVAL_UNTRUSTED; policy++) {
                for (int wish = 0; wish < APPROVAL_WISHES; wish++) {
                        eq_str(play(&a, (enum approval_policy)policy, NULL, (enum approval_wish)wish,
                                    APPROVAL_NO),
                               "RUN-OUTSIDE over");
                        eq_str(play(&a, (enum approval_policy)policy, NOTHING, (enum approval_wish)wish,
                                    APPROVAL_NO),
                               "RUN-OPEN over");
                }
        }
        eq_str(play(&a, APPROVAL_UNTRUSTED, NULL, APPROVAL_REQUIRE_ESCALATED, APPROVAL_ONCE),
               "untrusted/outside ? RUN-OUTSIDE over");
        eq_str(play(&a, APPROVAL_UNTRUSTED, NOTHING, APPROVAL_USE_DEFAULT, APPROVAL_NO),
               "untrusted ? refused");
}

TEST(a_run_that_was_not_denied_is_over)
{
        for (int policy = APPROVAL_NEVER; policy <= APPROVAL_ON_FAILURE; policy++) {
                struct person who;
                person_begin(&who, (enum approval_policy)policy, READ_ONLY);
                struct approval *p = begin(&who, APPROVAL_USE_DEFAULT);
                approval_ran(p, false, NULL, 0);
                eq_int(approval_state(p), APPROVAL_OVER);
                eq_u64(who.seen.n, 0);
                approval_free(p);
                person_end(&who);
        }
}

TEST(an_answer_calls_on_change_once_but_not_inside_of_the_calls)
{
        struct person who;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        struct approval *p = begin(&who, APPROVAL_REQUIRE_ESCALATED);
        eq_int(who.changes, 0);
        ok(approvals_answer(who.approvals, who.id, APPROVAL_ONCE));
        eq_int(who.changes, 1);
        ok(!approvals_answer(who.approvals, who.id, APPROVAL_ONCE));
        ok(!approvals_answer(who.approvals, 4711, APPROVAL_NO));
        eq_int(who.changes, 1);
        approval_free(p);

        who.is_quick = true;
        who.answer_now = APPROVAL_ONCE;
        p = begin(&who, APPROVAL_USE_DEFAULT);
        approval_ran(p, true, NULL, 0);
        eq_int(approval_state(p), APPROVAL_RUN);
        eq_int(who.changes, 1);
        approval_free(p);
        person_end(&who);
}

TEST(additional_permissions_that_do_not_fit_the_wish_or_say_nothing_are_refused)
{
        static const struct {
                enum approval_wish wish;
                const char *additional;
        } rows[] = {
                { APPROVAL_WITH_ADDITIONAL, NULL },
                { APPROVAL_USE_DEFAULT, CACHE },
                { APPROVAL_REQUIRE_ESCALATED, CACHE },
                { APPROVAL_WITH_ADDITIONAL, "{}" },
                { APPROVAL_WITH_ADDITIONAL, "{\"network\":{\"enabled\":false}}" },
                { APPROVAL_WITH_ADDITIONAL, "{\"file_system\":{\"write\":[\"cache\"]}}" },
                { APPROVAL_WITH_ADDITIONAL, "{\"files\":{}}" },
                { APPROVAL_WITH_ADDITIONAL, "{\"type\":\"disabled\"}" },
                { APPROVAL_WITH_ADDITIONAL, "[]" },
                { APPROVAL_WITH_ADDITIONAL, "{" },
        };
        struct person who;

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct approval_action action = { .argv = make,
                                                  .wish = rows[i].wish,
                                                  .additional = rows[i].additional };
                struct approval *p = approval_new(who.approvals, &action, on_change, &who);
                eq_int(approval_state(p), APPROVAL_REFUSED);
                ok(strstr(approval_text(p), "additional_permissions"));
                approval_free(p);
        }
        eq_u64(who.seen.n, 0);
        person_end(&who);
}

TEST(a_bad_default_profile_is_an_error)
{
        struct err err = ERR_INIT;

        ok(!approvals_new(APPROVAL_NEVER, "{\"type\":\"managed\"}", NULL, &err));
        ok(err.text[0]);
}

TEST(policies_and_wishes_are_found_by_their_names)
{
        enum approval_policy policy;
        enum approval_wish wish;

        for (int i = 0; i < APPROVAL_POLICIES; i++) {
                ok(approval_policy_find(approval_policy_name((enum approval_policy)i), &policy));
                eq_int(policy, i);
        }
        for (int i = 0; i < APPROVAL_WISHES; i++) {
                ok(approval_wish_find(approval_wish_name((enum approval_wish)i), &wish));
                eq_int(wish, i);
        }
        ok(!approval_policy_find("always", &policy));
        ok(!approval_wish_find("", &wish));
}

/* ---- programs about which rules ask ---- */

static struct approval *begin_program(struct person *who, const char *rule)
{
        struct approval_action action = {
                .environment_id = "local", .cwd = "/w", .argv = make, .is_program = true, .rule = rule
        };

        return approval_new(who->approvals, &action, on_change, who);
}

/* Asks about a program, and answers if there is a question. Returns what is to be done then. */
static const char *ask_program(struct arena *a, struct person *who, const char *rule,
                               enum approval_answer answer)
{
        struct approval *p = begin_program(who, rule);
        buf_truncate(&who->seen, 0);
        note(who, p);
        if (approval_state(p) == APPROVAL_ASKING) {
                if (answer == APPROVAL_NO)
                        ok(approvals_refuse(who->approvals, who->id, "not today"));
                else
                        ok(approvals_answer(who->approvals, who->id, answer));
                note(who, p);
        }
        if (approval_state(p) == APPROVAL_REFUSED)
                eq_str(approval_text(p), who->id ? "not today" : "Execution forbidden by policy");
        const char *seen = arena_dup(a, buf_slice(&who->seen));
        approval_free(p);
        return seen;
}

TEST(a_program_is_asked_about_and_a_rule_leads_outside)
{
        static const enum approval_policy policies[] = { APPROVAL_ON_REQUEST, APPROVAL_ON_FAILURE,
                                                         APPROVAL_UNTRUSTED };
        for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct person who;
                person_begin(&who, policies[i], READ_ONLY);
                eq_str(ask_program(&a, &who, "r:1", APPROVAL_NO), "? refused");
                eq_str(ask_program(&a, &who, "r:1", APPROVAL_ONCE), "? RUN-OUTSIDE");
                eq_str(ask_program(&a, &who, NULL, APPROVAL_ONCE), "? RUN");
                /* A program that was allowed for the session to run in the sandbox is asked about before it runs outside. */
                eq_str(ask_program(&a, &who, NULL, APPROVAL_FOR_SESSION), "? RUN");
                eq_str(ask_program(&a, &who, NULL, APPROVAL_NO), "RUN");
                eq_str(ask_program(&a, &who, "r:1", APPROVAL_FOR_SESSION), "? RUN-OUTSIDE");
                eq_str(ask_program(&a, &who, "r:1", APPROVAL_NO), "RUN-OUTSIDE");
                person_end(&who);
        }
}

TEST(the_policy_never_refuses_a_program_that_would_be_asked_about)
{
        _arena_ struct arena a = ARENA_INIT;
        struct person who;
        person_begin(&who, APPROVAL_NEVER, READ_ONLY);
        eq_str(ask_program(&a, &who, "r:1", APPROVAL_ONCE), "refused");
        person_end(&who);
}

static bool has_allowed(UNUSED void *arg, UNUSED const struct approval_action *action)
{
        return true;
}

TEST(what_was_written_down_is_not_asked_about)
{
        _arena_ struct arena a = ARENA_INIT;
        struct approvals_asker asker = { .ask = on_ask, .has_allowed = has_allowed };
        struct err err = ERR_INIT;
        struct person who = { .seen = BUF_INIT(4096) };
        asker.arg = &who;
        who.approvals = approvals_new(APPROVAL_ON_REQUEST, READ_ONLY, &asker, &err);
        eq_str(ask_program(&a, &who, "r:1", APPROVAL_NO), "RUN-OUTSIDE");
        eq_str(ask_program(&a, &who, NULL, APPROVAL_ONCE),
               "? RUN"); /* a rule of the user allows a run outside of the sandbox, and not this one */
        struct approval *p = begin(&who, APPROVAL_USE_DEFAULT);
        buf_truncate(&who.seen, 0);
        note(&who, p);
        eq_str(who.seen.p, "RUN-OUTSIDE");
        approval_free(p);
        person_end(&who);
}
