/* tools: the tables of the tools and of their members, and the JSON schemas that follow from them. */
#include "mcp/tools.h"

/* When a tool has a member. */
enum when { ALWAYS, WITH_ENVIRONMENTS, WITH_WISHES };

struct member {
        const char *name, *type, *about;
        const char *fallback; /* the default as JSON; NULL: none */
        enum when when;
        bool is_required;
        bool is_count, is_nullable;   /* a whole number that is not negative; may be null */
        const struct member *members; /* of an object; end with a name of NULL */
};

struct tool {
        const char *name, *title, *about;
        const struct member *input, *output; /* end with a name of NULL */
        bool is_read_only, is_open_world, is_idempotent;
        const char *input_title; /* of a schema that allows other members; NULL: it allows none */
};

#define MEMBER(n, t, a, ...)                                        \
        {                                                           \
                .name = (n), .type = (t), .about = (a), __VA_ARGS__ \
        }
#define MEMBERS_END          \
        {                    \
                .name = NULL \
        }
#define MEMBER_ENVIRONMENT                                                              \
        MEMBER("environment_id", "string", "The machine; without it the first of them", \
               .when = WITH_ENVIRONMENTS)
#define MEMBERS_WISHES                                                                                       \
        MEMBER("sandbox_permissions", "string",                                                              \
               "use_default, or require_escalated to run without a sandbox, or "                             \
               "with_additional_permissions; "                                                               \
               "what is more than the default is asked about",                                               \
               .fallback = "\"use_default\"", .when = WITH_WISHES),                                          \
                MEMBER("justification", "string",                                                            \
                       "Why the default permissions do not do, in words for the user", .when = WITH_WISHES), \
                MEMBER("additional_permissions", "object",                                                   \
                       "With with_additional_permissions: what is wanted, such as "                          \
                       "{\"file_system\":{\"write\":[\"/path\"]},\"network\":{\"enabled\":true}}",           \
                       .when = WITH_WISHES)
#define ABOUT_TOKENS "What is more is cut out of the middle"

static const struct member exec_input[] = {
        MEMBER("cmd", "string", "The command, for a shell", .is_required = true),
        MEMBER("workdir", "string", "The directory; relative to the workspace, which is the default"),
        MEMBER("tty", "boolean",
               "Run it on a terminal, which write_stdin can write to; otherwise stdin is closed",
               .fallback = "false"),
        MEMBER("yield_time_ms", "number",
               "How long to wait for the end, 250 to 30000; then the command runs on as a session",
               .fallback = "10000"),
        MEMBER("max_output_tokens", "number", ABOUT_TOKENS, .fallback = "10000"),
        MEMBER("shell", "string", "Another shell than the user's"),
        MEMBER("login", "boolean", "Start the shell as a login shell", .fallback = "true"),
        MEMBER_ENVIRONMENT,
        MEMBERS_WISHES,
        MEMBERS_END,
};

static const struct member write_input[] = {
        MEMBER("session_id", "integer", "The session that exec_command returned", .is_required = true),
        MEMBER("chars", "string",
               "What to write to the terminal; empty: only wait. U+0003 interrupts, also without a terminal",
               .fallback = "\"\""),
        MEMBER("yield_time_ms", "number",
               "How long to wait for output: 250 to 30000 after writing, otherwise at least 5000",
               .fallback = "250"),
        MEMBER("max_output_tokens", "number", ABOUT_TOKENS, .fallback = "10000"),
        MEMBERS_END,
};

static const struct member patch_input[] = {
        MEMBER("input", "string", "The patch, from *** Begin Patch to *** End Patch", .is_required = true),
        MEMBER("workdir", "string",
               "The directory of its paths; relative to the workspace, which is the default"),
        MEMBER_ENVIRONMENT,
        MEMBERS_WISHES,
        MEMBERS_END,
};

static const struct member shell_input[] = {
        MEMBER("command", "string", "The text of Bash to run", .is_required = true),
        MEMBER("workdir", "string", "The directory to run it in; an absolute path", .is_required = true),
        MEMBER("timeout_ms", "integer",
               "The most time that it may take, in milliseconds (10000 if absent); questions to the user do "
               "not "
               "count",
               .is_count = true, .is_nullable = true),
        MEMBER("login", "boolean", "Run bash -lc (if absent or true) or bash -c (false)",
               .is_nullable = true),
        MEMBER_ENVIRONMENT,
        MEMBERS_END,
};

static const struct member shell_duration[] = {
        MEMBER("secs", "integer", "Whole seconds", .is_required = true),
        MEMBER("nanos", "integer", "Nanoseconds beyond these", .is_required = true),
        MEMBERS_END,
};

static const struct member shell_output[] = {
        MEMBER("exit_code", "integer", "128 + N after the signal N, and 124 when it was timed out",
               .is_required = true),
        MEMBER("output", "string", "All of stdout, then all of stderr; at most 1 MiB", .is_required = true),
        MEMBER("duration", "object", "How long it ran", .is_required = true, .members = shell_duration),
        MEMBER("timed_out", "boolean", "It was ended at its limit of time", .is_required = true),
        MEMBERS_END,
};

#define MEMBER_PATH MEMBER("path", "string", "Relative to the workspace, or absolute", .is_required = true)
#define MEMBER_REAL_PATH MEMBER("path", "string", "The absolute path", .is_required = true)

static const struct member read_input[] = {
        MEMBER_PATH,
        MEMBER("offset", "integer", "The first line, from 1", .fallback = "1"),
        MEMBER("limit", "integer", "How many lines; there are never more than 256 KiB", .fallback = "2000"),
        MEMBER_ENVIRONMENT,
        MEMBERS_END,
};

static const struct member read_output[] = {
        MEMBER_REAL_PATH,
        MEMBER("text", "string", "The lines", .is_required = true),
        MEMBER("offset", "integer", "The number of the first of them", .is_required = true),
        MEMBER("lines", "integer", "How many they are", .is_required = true),
        MEMBER("total_lines", "integer", "How many the file has", .is_required = true),
        MEMBER("size", "integer", "The bytes of the file", .is_required = true),
        MEMBER("is_utf8", "boolean", "Otherwise U+FFFD stands for bytes that are not", .is_required = true),
        MEMBER("is_cut", "boolean", "The line is longer than an answer", .is_required = true),
        MEMBERS_END,
};

static const struct member write_file_input[] = {
        MEMBER_PATH,
        MEMBER("content", "string", "The whole new content", .is_required = true),
        MEMBER("create_parents", "boolean", "Make the directories above that are missing",
               .fallback = "false"),
        MEMBER_ENVIRONMENT,
        MEMBERS_END,
};

static const struct member write_file_output[] = {
        MEMBER_REAL_PATH,
        MEMBER("size", "integer", "The bytes of the file", .is_required = true),
        MEMBERS_END,
};

static const struct member list_input[] = {
        MEMBER_PATH,
        MEMBER("after", "string", "Only names behind this one, when an earlier list was truncated"),
        MEMBER_ENVIRONMENT,
        MEMBERS_END,
};

static const struct member list_entry[] = {
        MEMBER("name", "string", "The name", .is_required = true),
        MEMBER("kind", "string", "file, directory, link or other", .is_required = true),
        MEMBER("size", "integer", "The bytes of a file"),
        MEMBERS_END,
};

static const struct member list_output[] = {
        MEMBER_REAL_PATH,
        MEMBER("entries", "array", "Sorted by name; at most 1000", .is_required = true,
               .members = list_entry),
        MEMBER("truncated", "boolean", "There are more", .is_required = true),
        MEMBERS_END,
};

static const struct member image_input[] = {
        MEMBER_PATH,
        MEMBER_ENVIRONMENT,
        MEMBERS_END,
};

static const struct member image_output[] = {
        MEMBER_REAL_PATH,
        MEMBER("mime_type", "string", "image/png, image/jpeg, image/gif or image/webp", .is_required = true),
        MEMBER("size", "integer", "The bytes of the file", .is_required = true),
        MEMBERS_END,
};

static const struct member run_output[] = {
        MEMBER("chunk_id", "string", "Names this piece of output"),
        MEMBER("wall_time_seconds", "number", "How long the call took", .is_required = true),
        MEMBER("exit_code", "integer", "Only when the command has ended"),
        MEMBER("session_id", "integer", "Only when the command still runs: write_stdin takes it"),
        MEMBER("original_token_count", "integer", "The tokens of the output before it was cut"),
        MEMBER("output", "string", "What was written since the last call", .is_required = true),
        MEMBERS_END,
};

static const struct tool tools[] = {
        {
                .name = "shell",
                .title = "Run a text of Bash",
                .about =
                        "Runs a shell command and returns its output, when it has ended or its time is over. "
                        "You MUST give workdir as an absolute path. Programs that it starts may be asked "
                        "about "
                        "or denied. What it leaves running is ended.",
                .input = shell_input,
                .output = shell_output,
                .is_open_world = true,
                .input_title = "ExecParams",
        },
        {
                .name = "exec_command",
                .title = "Run a command",
                .about = "Runs a shell command and returns its output. A command that runs longer than "
                         "yield_time_ms "
                         "goes on as a session: the result has a session_id, and write_stdin waits for more "
                         "output, "
                         "or writes to it.",
                .input = exec_input,
                .output = run_output,
                .is_open_world = true,
        },
        {
                .name = "write_stdin",
                .title = "Write to a session, or wait for it",
                .about = "Writes to a session of exec_command, or waits for its output when chars is empty.",
                .input = write_input,
                .output = run_output,
                .is_open_world = true,
        },
        {
                .name = "apply_patch",
                .title = "Apply a patch",
                .about = "Adds, deletes, changes or moves files; all of the patch is applied, or nothing. "
                         "Form: *** Begin "
                         "Patch, then for each file *** Add File: PATH with lines that begin with +, *** "
                         "Delete File: "
                         "PATH, or *** Update File: PATH (*** Move to: PATH may follow) with changes: @@ and "
                         "a line of "
                         "context, then lines that begin with a space (unchanged), - (removed) or + (added); "
                         "then *** "
                         "End Patch.",
                .input = patch_input,
                .output = run_output,
        },
        {
                .name = "read_file",
                .title = "Read a file",
                .about = "Returns lines of a text file of at most 16 MiB.",
                .input = read_input,
                .output = read_output,
                .is_read_only = true,
        },
        {
                .name = "write_file",
                .title = "Write a file",
                .about = "Makes a file, or replaces the whole content of one. To change a part of a file use "
                         "apply_patch.",
                .input = write_file_input,
                .output = write_file_output,
                .is_idempotent = true,
        },
        {
                .name = "list_directory",
                .title = "List a directory",
                .about = "Returns the names in a directory, with what they are. Links are not followed.",
                .input = list_input,
                .output = list_output,
                .is_read_only = true,
        },
        {
                .name = "view_image",
                .title = "Look at an image",
                .about = "Returns an image of at most 5 MiB to look at: PNG, JPEG, GIF or WebP.",
                .input = image_input,
                .output = image_output,
                .is_read_only = true,
        },
};

/* ---- schemas ---- */

static bool is_offered(const struct member *m, const struct tools_offer *offer)
{
        if (m->when == WITH_ENVIRONMENTS)
                return offer->environments[0] && offer->environments[1];
        return m->when == ALWAYS || offer->can_wish;
}

static void write_members(struct jsonw *w, const struct member *members, const struct tools_offer *offer);

static void write_member(struct jsonw *w, const struct member *m, const struct tools_offer *offer)
{
        jsonw_key(w, m->name);
        jsonw_object(w);
        jsonw_member_str(w, "type", m->type);
        jsonw_member_str(w, "description", m->about);
        if (m->fallback) {
                jsonw_key(w, "default");
                jsonw_raw(w, slice_from_str(m->fallback));
        }
        if (m->is_count) {
                jsonw_member_str(w, "format", "uint64");
                jsonw_member_u64(w, "minimum", 0);
        }
        if (m->is_nullable)
                jsonw_member_bool(w, "nullable", true);
        if (m->members && strcmp(m->type, "array") == 0) {
                jsonw_key(w, "items");
                jsonw_object(w);
                jsonw_member_str(w, "type", "object");
                write_members(w, m->members, offer);
                jsonw_object_end(w);
        } else if (m->members) {
                write_members(w, m->members, offer);
        }
        if (m->when == WITH_ENVIRONMENTS) {
                jsonw_key(w, "enum");
                jsonw_array(w);
                for (const char *const *id = offer->environments; *id; id++)
                        jsonw_str(w, *id);
                jsonw_array_end(w);
        }
        jsonw_object_end(w);
}

/* Writes what a schema says about the members of an object. */
static void write_members(struct jsonw *w, const struct member *members, const struct tools_offer *offer)
{
        jsonw_key(w, "properties");
        jsonw_object(w);
        for (const struct member *m = members; m->name; m++)
                if (is_offered(m, offer))
                        write_member(w, m, offer);
        jsonw_object_end(w);
        jsonw_key(w, "required");
        jsonw_array(w);
        for (const struct member *m = members; m->name; m++)
                if (m->is_required)
                        jsonw_str(w, m->name);
        jsonw_array_end(w);
}

/* `title` stands in schemas whose objects may have other members, too. */
static void write_schema(struct jsonw *w, const char *key, const char *title, const struct member *members,
                         const struct tools_offer *offer)
{
        jsonw_key(w, key);
        jsonw_object(w);
        if (title) {
                jsonw_member_str(w, "$schema", "https://json-schema.org/draft/2020-12/schema");
                jsonw_member_str(w, "title", title);
        }
        jsonw_member_str(w, "type", "object");
        write_members(w, members, offer);
        if (!title)
                jsonw_member_bool(w, "additionalProperties", false);
        jsonw_object_end(w);
}

static void write_annotations(struct jsonw *w, const struct tool *t, const struct tools_offer *offer)
{
        /* Rules may allow programs of shell to run outside of the sandbox. */
        bool is_held = offer->is_read_only && !offer->can_wish && t->input != shell_input;
        bool is_read_only = t->is_read_only || is_held;
        jsonw_key(w, "annotations");
        jsonw_object(w);
        jsonw_member_str(w, "title", t->title);
        jsonw_member_bool(w, "readOnlyHint", is_read_only);
        jsonw_member_bool(w, "destructiveHint", !is_read_only);
        jsonw_member_bool(w, "idempotentHint", t->is_read_only || t->is_idempotent);
        jsonw_member_bool(w, "openWorldHint", t->is_open_world);
        jsonw_object_end(w);
}

void tools_write(struct jsonw *w, const struct tools_offer *offer)
{
        jsonw_array(w);
        for (const struct tool *t = tools; t < tools + ARRAY_LEN(tools); t++) {
                if (offer->is_reference && t->input != shell_input)
                        continue;
                bool has_structured = offer->version->has_structured && !offer->is_reference;
                jsonw_object(w);
                jsonw_member_str(w, "name", t->name);
                if (has_structured)
                        jsonw_member_str(w, "title", t->title);
                jsonw_member_str(w, "description", t->about);
                write_schema(w, "inputSchema", t->input_title, t->input, offer);
                if (has_structured)
                        write_schema(w, "outputSchema", NULL, t->output, offer);
                if (offer->version->has_annotations && !offer->is_reference)
                        write_annotations(w, t, offer);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}
