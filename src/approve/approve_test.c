/* approve_test: what each policy makes of each wish, denial and answer. */
#include "approve/approve.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "unit.h"

#define READ_ONLY                                                                                          \
        "{\"type\":\"managed\",\"file_system\":{\"type\":\"restricted\",\"entries\":[{\"path\":{\"type\":" \
        "\"special\","                                                                                     \
        "\"value\":{\"kind\":\"root\"}},\"access\":\"read\"}]},\"network\":\"restricted\"}"
#define WITH_CACHE                                                                                         \
        "{\"type\":\"managed\",\"file_system\":{\"type\":\"restricted\",\"entries\":[{\"path\":{\"type\":" \
        "\"special\","                                                                                     \
        "\"value\":{\"kind\":\"root\"}},\"access\":\"read\"},{\"path\":{\"type\":\"path\",\"path\":\"/"    \
        "cache\"},"                                                                                        \
        "\"access\":\"write\"}]},\"network\":\"restricted\"}"
#define CACHE "{\"file_system\":{\"write\":[\"/cache\"]}}"
#define NOTHING "{\"type\":\"disabled\"}"

/* A person who is asked. Everything that happens is noted as words. */
struct person {
        struct approvals *approvals;
        struct buf seen;
        uint64_t id;
        enum approval_answer answer_now; /* with `is_quick`: the answer during the question */
        bool is_quick;
        unsigned changes;
};

static void on_ask(void *arg, const struct approval_question *q)
{
        struct person *who = arg;

        must(buf_printf(&who->seen, "%s%s%s%s%s", who->seen.n ? " " : "", approval_reason_name(q->reason),
                        q->is_outside ? "/outside" : "", q->permissions ? "/more" : "",
                        q->denials ? q->denials : "") == 0);
        who->id = q->id;
        ok(q->action->argv || q->action->paths);
        if (who->is_quick)
                ok(approvals_answer(who->approvals, q->id, who->answer_now));
}

static void on_withdraw(void *arg, uint64_t id)
{
        struct person *who = arg;

        ok(id > 0 && id <= who->id);
        must(buf_printf(&who->seen, " withdrawn") == 0);
}

static void on_change(UNUSED struct approval *p, void *arg)
{
        ((struct person *)arg)->changes++;
}

static void person_begin(struct person *who, enum approval_policy policy, const char *profile)
{
        struct approvals_asker asker = { .ask = on_ask, .withdraw = on_withdraw, .arg = who };
        struct err err = ERR_INIT;

        *who = (struct person){ .seen = BUF_INIT(4096) };
        who->approvals = approvals_new(policy, profile, &asker, &err);
        ok(who->approvals != NULL);
}

static void person_end(struct person *who)
{
        approvals_free(who->approvals);
        buf_release(&who->seen);
}

static const char *const make[] = { "make", "all", NULL };
static const char *const two_files[] = { "/w/a", "/w/b", NULL };

static struct approval *begin(struct person *who, enum approval_wish wish)
{
        struct approval_action action = {
                .environment_id = "local",
                .cwd = "/w",
                .argv = make,
                .wish = wish,
                .additional = wish == APPROVAL_WITH_ADDITIONAL ? CACHE : NULL,
        };

        return approval_new(who->approvals, &action, on_change, who);
}

/* Appends what the approval says is to be done now. */
static void note(struct person *who, const struct approval *p)
{
        const char *words[] = {
                [APPROVAL_ASKING] = "?", [APPROVAL_REFUSED] = "refused", [APPROVAL_OVER] = "over"
        };
        enum approval_state state = approval_state(p);
        const char *profile = approval_permissions(p);
        const char *word = state != APPROVAL_RUN              ? words[state]
                           : !profile                         ? "RUN-OUTSIDE"
                           : strcmp(profile, READ_ONLY) == 0  ? "RUN"
                           : strcmp(profile, WITH_CACHE) == 0 ? "RUN-MORE"
                           : strcmp(profile, NOTHING) == 0    ? "RUN-OPEN"
                                                              : "RUN-STRANGE";

        must(buf_printf(&who->seen, "%s%s", who->seen.n ? " " : "", word) == 0);
        ok((state == APPROVAL_REFUSED) == (approval_text(p) != NULL));
}

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

TEST(a_patch_is_granted_when_each_of_its_real_paths_is)
{
        static const char *const first[] = { "/w/a", NULL }, *const second[] = { "/w/b", NULL },
                                 *const third[] = { "/w/a", "/w/c", NULL }, *const none[] = { NULL },
                                 *const named[] = { "/w/link", NULL };
        const char *const *const lists[] = { first, second, two_files, third, none };
        struct person who;

        person_begin(&who, APPROVAL_ON_FAILURE, READ_ONLY);
        who.is_quick = true;
        who.answer_now = APPROVAL_FOR_SESSION;
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
                struct approval_action action = { .environment_id = "local", .cwd = "/w", .paths = named };
                struct approval *p = approval_new(who.approvals, &action, on_change, &who);
                bool is_first = approval_state(p) == APPROVAL_RUN;
                eq_int(is_first, i == 0); /* later there are grants, which are for real paths */
                if (!is_first)
                        approval_looked(p, lists[i]);
                note(&who, p);
                eq_int(approval_real_paths(p) != NULL, approval_permissions(p) == NULL);
                bool is_denied = approval_permissions(p) != NULL;
                approval_ran(p, is_denied, NULL, 0);
                if (is_denied) {
                        eq_int(approval_state(p), APPROVAL_LOOKING);
                        approval_looked(p, lists[i]);
                        eq_int(approval_state(p), APPROVAL_RUN);
                        ok(lists[i] == none || strcmp(approval_real_paths(p)[0], lists[i][0]) == 0);
                }
                approval_free(p);
        }
        eq_str(who.seen.p,
               "RUN denied/outside RUN denied/outside RUN-OUTSIDE RUN denied/outside RUN denied/outside");
        person_end(&who);
}

TEST(a_patch_is_looked_at_before_anybody_is_asked)
{
        static const char *const real[] = { "/real/a", NULL };
        static const struct {
                enum approval_policy policy;
                enum approval_wish wish;
                const char *profile;
                bool looks_first;
        } rows[] = {
                { APPROVAL_NEVER, APPROVAL_USE_DEFAULT, READ_ONLY, false },
                { APPROVAL_NEVER, APPROVAL_REQUIRE_ESCALATED, READ_ONLY, false },
                { APPROVAL_ON_REQUEST, APPROVAL_USE_DEFAULT, READ_ONLY, false },
                { APPROVAL_ON_REQUEST, APPROVAL_REQUIRE_ESCALATED, READ_ONLY, true },
                { APPROVAL_ON_REQUEST, APPROVAL_WITH_ADDITIONAL, READ_ONLY, true },
                { APPROVAL_ON_REQUEST, APPROVAL_REQUIRE_ESCALATED, NOTHING, false },
                { APPROVAL_ON_FAILURE, APPROVAL_REQUIRE_ESCALATED, READ_ONLY, false },
                { APPROVAL_UNTRUSTED, APPROVAL_USE_DEFAULT, READ_ONLY, true },
                { APPROVAL_UNTRUSTED, APPROVAL_USE_DEFAULT, NOTHING, true },
                { APPROVAL_UNTRUSTED, APPROVAL_USE_DEFAULT, NULL, true },
        };
        for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
                size_t row = i / 2;
                bool is_found = i % 2 == 0;
                struct person who;
                person_begin(&who, rows[row].policy, rows[row].profile);
                struct approval_action action = {
                        .environment_id = "local",
                        .cwd = "/w",
                        .paths = two_files,
                        .wish = rows[row].wish,
                        .additional = rows[row].wish == APPROVAL_WITH_ADDITIONAL ? CACHE : NULL,
                };
                struct approval *p = approval_new(who.approvals, &action, on_change, &who);
                eq_int(approval_state(p) == APPROVAL_LOOKING, rows[row].looks_first);
                eq_u64(who.seen.n, 0);
                if (approval_state(p) == APPROVAL_LOOKING) {
                        approval_looked(p, is_found ? real : NULL);
                        eq_int(approval_state(p), is_found ? APPROVAL_ASKING : APPROVAL_REFUSED);
                }
                if (approval_state(p) == APPROVAL_ASKING) {
                        ok(approvals_answer(who.approvals, who.id, APPROVAL_ONCE));
                        eq_str(approval_real_paths(p)[0], "/real/a");
                }
                approval_free(p);
                person_end(&who);
        }
}

TEST(where_the_paths_of_a_denied_patch_lead_must_be_known)
{
        struct person who;
        struct approval_action action = { .environment_id = "local", .cwd = "/w", .paths = two_files };

        person_begin(&who, APPROVAL_ON_REQUEST, READ_ONLY);
        struct approval *p = approval_new(who.approvals, &action, on_change, &who);
        eq_int(approval_state(p), APPROVAL_RUN);
        ok(!approval_real_paths(p));
        approval_ran(p, true, NULL, 0);
        eq_int(approval_state(p), APPROVAL_LOOKING);
        approval_looked(p, NULL);
        eq_int(approval_state(p), APPROVAL_OVER);
        eq_u64(who.seen.n, 0);
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

TEST(real_paths_count_for_the_length_of_a_question)
{
        static char word[LIMIT_APPROVAL_QUESTION_BYTES + 1];
        const char *real_paths[] = { "/a", word, NULL };

        memset(word, 'x', LIMIT_APPROVAL_QUESTION_BYTES - 1);
        for (enum approval_policy policy = APPROVAL_ON_REQUEST; policy <= APPROVAL_UNTRUSTED; policy++) {
                struct approval_action action = { .environment_id = "here", .cwd = "/", .paths = two_files };
                struct person who;
                person_begin(&who, policy, READ_ONLY);
                struct approval *p = approval_new(who.approvals, &action, on_change, &who);
                bool was_run = approval_state(p) == APPROVAL_RUN;
                if (was_run)
                        approval_ran(p, true, NULL, 0);
                eq_int(approval_state(p), APPROVAL_LOOKING);
                approval_looked(p, real_paths);
                eq_int(approval_state(p), was_run ? APPROVAL_OVER : APPROVAL_REFUSED);
                approval_free(p);
                person_end(&who);
        }
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
                /* A yes for the session to a run inside is none for one outside. */
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
               "? RUN"); /* what is written down is about outside */
        struct approval *p = begin(&who, APPROVAL_USE_DEFAULT);
        buf_truncate(&who.seen, 0);
        note(&who, p);
        eq_str(who.seen.p, "RUN-OUTSIDE");
        approval_free(p);
        person_end(&who);
}
