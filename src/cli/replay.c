/* replay: takes questions out of old output, with a state machine over control sequences, and asks the server for that output. */
#include "cli/replay.h"

#include "base/base64.h"
#include "base/mem.h"
#include "cli/detached.h"

#include <errno.h>

#define ENQ '\005'
#define BEL '\007'
#define CAN '\030'
#define SUB '\032'
#define ESC '\033'

/* ---- questions ---- */

/* Returns whether a CSI sequence (ESC [ …) is a question. The letter at its end says what the sequence means, together with a mark
 * behind the bracket and one before the letter. */
static bool is_csi_question(const char *held, size_t n)
{
        char last = held[n - 1], mark = held[n - 2], first = held[2];
        static const char pairs[][2] = { { '$', 'p' }, { '$', 'u' }, { '$', 'w' }, { '&', 'u' },
                                         { '"', 'v' }, { '*', 'y' }, { '#', 'R' }, { '#', '|' } };
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
                if (mark == pairs[i][0] &&
                    last == pairs[i][1]) /* these sequences ask for reports of modes and contents */
                        return true;
        if (mark >= ' ' && mark <= '/')
                return false;
        switch (last) {
        case 'c': /* asks for the kind of the terminal */
                return first != '?';
        case 'n': /* asks for the status, or the position of the cursor */
                return first != '>';
        case 'x':
                return true;
        case 'q': /* asks for the version of the terminal */
                return first == '>';
        case 'u': /* asks for the mode of the keyboard */
        case 'S': /* asks what graphics the terminal can show */
                return first == '?';
        case 't': { /* asks for the size or the title of the window */
                unsigned wish = 0;
                for (size_t i = 2; i < n && held[i] >= '0' && held[i] <= '9'; i++)
                        wish = MIN(wish * 10 + (unsigned)(held[i] - '0'), 1000U);
                return wish >= 11 && wish <= 21;
        }
        default:
                return false;
        }
}

static bool is_question(const struct replay *r)
{
        struct slice all = slice_from(r->held, r->n);
        if (r->is_long || r->n < 2)
                return false;
        switch (r->held[1]) {
        case '[':
                return r->n >= 3 && is_csi_question(r->held, r->n);
        case ']': /* a colour or the clipboard: the value is a question mark */
                return memmem(all.p, all.n, ";?", 2) != NULL;
        case 'P':
                return r->n >= 4 && (r->held[2] == '$' || r->held[2] == '+') &&
                       (r->held[3] == 'q' || r->held[3] == 'Q');
        case '_': /* graphics that report success */
                return r->n >= 3 && r->held[2] == 'G';
        case 'Z':
                return true;
        default:
                return false;
        }
}

/* ---- the state machine ---- */

static void give_out(struct replay *r, char *out, size_t *made)
{
        memcpy(out + *made, r->held, r->n);
        *made += r->n;
        r->n = 0;
}

static void hold(struct replay *r, char c, char *out, size_t *made)
{
        if (r->n == sizeof(r->held)) {
                give_out(r, out, made);
                r->is_long = true;
        }
        r->held[r->n++] = c;
}

/* Ends the held sequence: drops a question, and gives everything else out. */
static void finish(struct replay *r, char *out, size_t *made)
{
        if (!is_question(r))
                give_out(r, out, made);
        r->n = 0;
        r->is_long = false;
        r->state = REPLAY_TEXT;
}

static void take(struct replay *r, char c, char *out, size_t *made)
{
        bool is_ended = r->state == REPLAY_STRING_ESC && c == '\\';
        if (r->state == REPLAY_STRING_ESC && !is_ended)
                r->n--; /* this ESC begins the next sequence */
        if (r->state != REPLAY_TEXT && r->state != REPLAY_STRING && !is_ended &&
            (c == ESC || r->state == REPLAY_STRING_ESC)) {
                bool was_string = r->state == REPLAY_STRING_ESC;
                finish(r, out, made);
                if (was_string)
                        take(r, ESC, out, made);
                take(r, c, out, made);
                return;
        }
        if (r->state == REPLAY_TEXT && c != ESC) {
                if (c != ENQ)
                        out[(*made)++] = c;
                return;
        }
        hold(r, c, out, made);
        switch (r->state) {
        case REPLAY_TEXT:
                r->state = REPLAY_ESC;
                return;
        case REPLAY_ESC:
                if (c == '[')
                        r->state = REPLAY_CSI;
                else if (c != '\0' && strchr("]P_^X", c))
                        r->state = REPLAY_STRING;
                else if (c < ' ' || c > '/')
                        finish(r, out, made);
                return;
        case REPLAY_CSI:
                if ((c >= '@' && c <= '~') || c == CAN || c == SUB)
                        finish(r, out, made);
                return;
        case REPLAY_STRING:
                if (c == ESC)
                        r->state = REPLAY_STRING_ESC;
                else if (c == BEL || c == CAN || c == SUB)
                        finish(r, out, made);
                return;
        case REPLAY_STRING_ESC:
                finish(r, out, made);
                return;
        }
}

size_t replay_filter(struct replay *r, const char *in, size_t n, char *out)
{
        size_t made = 0;
        for (size_t i = 0; i < n; i++)
                take(r, in[i], out, &made);
        return made;
}

/* ---- what the server has kept ---- */

/* Appends one chunk to `ret`, without questions. Returns 0, or -errno. */
static int append_shown(struct replay *filter, struct slice text, struct buf *ret)
{
        _free_ char *bytes = malloc(base64_decoded_max(text.n) + 1); /* the server chose the size */
        ssize_t n = bytes ? base64_decode(bytes, text.p, text.n, NULL) : -ENOMEM;
        char *room;
        if (n < 0)
                return bytes ? -EBADMSG : -ENOMEM;
        int result = buf_reserve_or_fail(ret, (size_t)n + REPLAY_HELD_MAX, &room);
        if (result == 0)
                buf_commit(ret, replay_filter(filter, bytes, (size_t)n, room));
        return result;
}

int replay_read(const struct remote *r, struct farhand *f, const char *process_id, struct buf *ret,
                uint64_t *ret_seq)
{
        _answer_ struct answer a = ANSWER_INIT;
        struct replay filter = { 0 };
        const struct detached process = { .session_id = farhand_session_id(f), .process_id = process_id };
        const char *params = detached_params(&a.arena, &process, ",\"afterSeq\":0,\"waitMs\":0");
        int result = answer_get(&a, r, f, "process/read", params);
        if (result < 0)
                return result;
        *ret_seq = 0;
        const struct json *chunks = json_get(&a.doc, a.root, S("chunks"));
        for (const struct json *it = chunks && chunks->type == JSON_ARRAY ? chunks + 1 : NULL;
             it && it < a.doc.tokens + chunks->end; it = a.doc.tokens + it->end) {
                int64_t seq = answer_number(&a, it, "seq", -1);
                result = append_shown(&filter, slice_from_str(answer_text(&a, it, "chunk")), ret);
                if (result < 0 || seq < 0) {
                        remote_say(r, "the server has sent output that cannot be read");
                        return result < 0 ? result : -EBADMSG;
                }
                *ret_seq = MAX(*ret_seq, (uint64_t)seq);
        }
        return buf_append(ret, slice_from(filter.held,
                                          filter.n)); /* later output continues this unfinished sequence */
}
