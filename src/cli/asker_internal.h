/* asker_internal: the questions that wait at a terminal, of whatever kind. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "cli/asker.h"
#include "cli/page.h"

#define ASKER_NOBODY "nobody can be asked: there is no terminal"
#define ASKER_REFUSED "the answer was no"

struct asker_question;

enum asker_reply {
        ASKER_DONE,  /* the line was an answer, and is sent */
        ASKER_WHOLE, /* the person wants to see all of the question */
        ASKER_AGAIN, /* the line was no answer */
};

/* What the questions of one kind have in common. */
struct asker_kind {
        const char *prompt;
        const char *withdrawn; /* is written when nobody waits for the answer any more */
        void (*show)(struct page *p, const struct asker *a, const struct asker_question *q, bool is_whole);
        enum asker_reply (*take)(struct asker *a, const struct asker_question *q, const char *line);
        void (*refuse)(struct asker *a, const struct asker_question *q);
        /* Answers a question whose answer is known by now. NULL: none is. */
        bool (*answer_known)(struct asker *a, const struct asker_question *q);
};

/* The first member of the questions of each kind. */
struct asker_question {
        struct list link; /* asker::questions */
        const struct asker_kind *kind;
        struct farhand_process *process;
        struct arena arena; /* holds the texts */
};

/* A host that may be reached without another question. */
struct asker_host {
        struct list link; /* asker::hosts */
        uint16_t port;
        char name[];
};

struct asker {
        struct terminal *terminal;
        bool was_raw;
        int fd;                /* -1: there is no terminal */
        FILE *to;              /* the same terminal */
        struct list questions; /* the first one is shown */
        unsigned tries;
        struct list hosts;      /* asker_host::link */
        const char *rules_file; /* for network rules; NULL: none */
        bool has_ports;
};

/* Takes a question over, and shows it when its turn has come. */
void asker_put(struct asker *a, struct asker_question *q);
/* Drops a question that was put. */
void asker_withdraw(struct asker *a, struct asker_question *q);
/* Says on the terminal that an answer could not be sent. */
void asker_complain(struct asker *a, int code);
