/* approve_patch_test: what approvals make of patches: their real paths are found out before anybody is asked, and grants hold for these. */
#include "approve/approve_rig.h"

#include "base/arena.h"
#include "base/limits.h"
#include "base/mem.h"

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
                eq_int(is_first, i == 0); /* the later actions find grants, which are for real paths */
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
