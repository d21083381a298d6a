/* mount_escape: decodes the paths in a table of mounts: blanks, tabs, line feeds and backslashes are octal escapes there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Decodes in place, because the decoded text is shorter, and returns its length. Makes no system call and calls no library, for
 * code between clone and execve. */
static inline size_t mount_unescape(char *text, size_t n)
{
        size_t to = 0;
        for (size_t i = 0; i < n; i++) {
                const char *digits = text + i + 1;
                bool is_escape = text[i] == '\\' && n - i > 3 && digits[0] >= '0' && digits[0] <= '3' &&
                                 digits[1] >= '0' && digits[1] <= '7' && digits[2] >= '0' && digits[2] <= '7';
                if (is_escape) {
                        text[to++] = (char)(((digits[0] - '0') << 6) | ((digits[1] - '0') << 3) |
                                            (digits[2] - '0'));
                        i += 3;
                } else {
                        text[to++] = text[i];
                }
        }
        return to;
}
