/* typed_answer: reads what a person types as an answer to a question on a terminal. */
#include "cli/typed_answer.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

ssize_t typed_answer_read(int fd, char *line)
{
        ssize_t n = read(fd, line, TYPED_ANSWER_BYTES - 1);

        if (n > 0) {
                line[n] = '\0';
                line[strcspn(line, "\r\n")] = '\0';
        }
        return n;
}

bool typed_answer_is(const char *line, const char *letter, const char *word)
{
        return strcasecmp(line, letter) == 0 || strcasecmp(line, word) == 0;
}
