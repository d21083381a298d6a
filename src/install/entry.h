/* entry: what `farhand mcp install` writes into the configuration of an MCP client: the program that the client starts, and its arguments. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

/* The name of our entry among the servers of a client. */
#define ENTRY_NAME "farhand"

struct entry {
        const char *command;
        const char *const *args; /* UTF-8, like the command */
        size_t arg_count;
};

/* How a client writes its configuration. */
enum config_form {
        FORM_JSON,
        FORM_JSON_COMMENTS,        /* JSON with comments of both kinds */
        FORM_JSON_COMMENTS_COMMAS, /* JSON with comments and with commas behind the last member */
        FORM_TOML,
};

struct config_shape {
        enum config_form form;
        const char
                *servers; /* the member of the root, or the table, that holds the servers: needs no escape */
        bool has_type;    /* an entry says "type": "stdio" */
};

/* What became of the text of a configuration. */
enum edit_result {
        EDIT_NOTHING = 0, /* nothing is to be changed */
        EDIT_CHANGED,
        EDIT_EMPTY, /* the file would hold nothing but what an installation had made */
};
