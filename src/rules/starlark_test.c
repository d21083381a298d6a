/* starlark_test: what texts mean, and which texts are refused, where and why. */
#include "rules/starlark.h"

#include "base/buf.h"
#include "base/limits.h"

#include "unit.h"

static const char *const functions[] = { "f", "g" };

struct run {
        struct arena arena;
        struct buf calls; /* "f(["a"], x=1) " for each call */
        size_t steps;
        struct err err;
};

static void run_release(struct run *r)
{
        arena_release(&r->arena);
        buf_release(&r->calls);
}
#define _run_ CLEANUP(run_release)

static int on_call(void *arg, const struct starlark_call *call, struct err *err)
{
        struct run *r = arg;

        assert_int_equal(buf_printf(&r->calls, "%s(", functions[call->function]), 0);
        for (size_t i = 0; i < call->count; i++) {
                const struct starlark_argument *a = &call->arguments[i];
                const char *value = starlark_repr(&r->arena, a->value);
                assert_int_equal(a->name.p ? buf_printf(&r->calls, "%.*s=%s,", SLICE(a->name), value)
                                           : buf_printf(&r->calls, "%s,", value),
                                 0);
        }
        assert_int_equal(buf_printf(&r->calls, ")"), 0);
        return call->function == 1 ? err_set(err, 0, -1, "g says no") : 0;
}

static struct run run(struct slice text)
{
        struct run r = { .calls = BUF_INIT(100000), .steps = LIMIT_RULES_STEPS };
        const struct starlark_program program = {
                .name = "t",
                .text = text,
                .functions = functions,
                .function_count = 2,
                .call = on_call,
                .arg = &r,
                .steps = &r.steps,
        };
        int code = starlark_run(&r.arena, &program, &r.err);
        assert_int_equal(code, r.err.code);
        return r;
}

TEST(texts_call_functions_with_values)
{
        static const struct {
                const char *text, *calls;
        } table[] = {
                { "", "" },
                { "# only a comment", "" },
                { "f()", "f()" },
                { "f ( 'a' , )\n", "f(\"a\",)" },
                { "f(x='a', y=[1, 0x1F, None, True])", "f(x=\"a\",y=[1, 0x1F, None, True],)" },
                { "f(1); f(2) ;\nf(3)", "f(1,)f(2,)f(3,)" },
                { "f(\n  # why\n  ['a',\n   'b',],\n)", "f([\"a\", \"b\"],)" },
                { "f(())\nf((1,))\nf((1))\nf((1, 2))", "f((),)f((1,),)f(1,)f((1, 2),)" },
                { "f(\\\n1)\\\n", "f(1,)" },
                { "f(1)\r\nf(2)\r\n", "f(1,)f(2,)" },
                { "\n\n   # blank\n\t\nf(1)\n   ", "f(1,)" },
                { "'a text'\nNone\n[1]\nf(1)", "f(1,)" },
                /* names and sums */
                { "A = ['a']\nf(A + ['b'] + A)", "f([\"a\", \"b\", \"a\"],)" },
                { "A = 'a'\nA += 'b'\nf(A)", "f(\"ab\",)" },
                { "A = (1,)\nA += (2,)\nf(A)", "f((1, 2),)" },
                { "A = ['a']\nB = A\nB += ['b']\nf(A)", "f([\"a\", \"b\"],)" },
                { "A = ['a']\nB = A\nB = B + ['b']\nf(A)", "f([\"a\"],)" },
                { "A = ['a']\nA += A\nf(A)", "f([\"a\", \"a\"],)" },
                { "A = ['a']\nA += ('b',)\nf(A)", "f([\"a\", \"b\"],)" },
                { "A = 1\nA = 2\nf(A)", "f(2,)" },
                { "_a1 = 1\nf(_a1)", "f(1,)" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _run_ struct run r = run(slice_from_str(table[i].text));
                eq_str(r.err.text, "");
                eq_str(r.calls.p, table[i].calls);
        }
}

TEST(strings_are_read_as_the_engine_of_codex_reads_them)
{
        static const struct {
                const char *text;
                struct slice value;
        } table[] = {
                { "\"\"", S("") },
                { "''", S("") },
                { "'a\"b'", S("a\"b") },
                { "\"\"\"a\n\"b\"\"c\"\"\"", S("a\n\"b\"\"c") },
                { "'''a\r\nb'''", S("a\nb") },
                { "'''a\\'''b'''", S("a'''b") },
                { "'\\a\\b\\f\\n\\r\\t\\v\\\\\\'\\\"'", S("\a\b\f\n\r\t\v\\'\"") },
                { "'\\x41\\u00e9\\U0001F600'", S("A\xc3\xa9\xf0\x9f\x98\x80") },
                { "'\\xe9'", S("\xc3\xa9") },
                { "'\\0\\18\\1234\\400'", S("\0\1"
                                            "8S4\xc4\x80") },
                { "'\\q\\8'", S("\\q\\8") },
                { "'a\\\nb'", S("ab") },
                { "r'a\\n'", S("a\\n") },
                { "r'a\\'b'", S("a'b") },
                { "r'a\\\\'", S("a\\\\") },
                { "r'a\\\nb'", S("a\\\nb") },
                { "r'''a\r\nb'''", S("a\nb") },
                { "'\xc3\xa9'", S("\xc3\xa9") },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _arena_ struct arena a = ARENA_INIT;
                continue;
                _run_ struct run r = run(slice_from_str(arena_printf(&a, "f(%s)", table[i].text)));
                struct starlark_value want = { .type = STARLARK_STRING, .text = table[i].value };
                eq_str(r.err.text, "");
                eq_str(r.calls.p, arena_printf(&a, "f(%s,)", starlark_repr(&a, &want)));
        }
}

TEST(what_is_wrong_is_refused_with_line_and_column)
{
        static const struct {
                const char *text, *error;
        } table[] = {
                { "f(\"a\" \"b\")",
                  "t:1:7: Parse error: unexpected string literal \"b\", expected symbol ')'" },
                { "f(1) f(2)", "t:1:6: Parse error: unexpected identifier 'f', expected new line" },
                { "f(1", "t:1:4: Parse error: unexpected new line, expected symbol ')'" },
                { "f([1", "t:1:5: Parse error: unexpected new line, expected symbol ']'" },
                { "f([1)", "t:1:5: Parse error: unexpected symbol ')', expected symbol ']'" },
                { "f(,)", "t:1:3: Parse error: unexpected symbol ',', expected expression" },
                { "f(1);;", "t:1:6: Parse error: unexpected symbol ';', expected expression" },
                { " f(1)", "t:1:1: Parse error: unexpected new indentation block, expected expression" },
                { "f(1)\n\tf(2)", "t:2:1: Parse error: tabs are not allowed" },
                { "f(\t1)", "t:1:3: Parse error: tabs are not allowed" },
                { "f('a", "t:1:3: Parse error: unfinished string literal" },
                { "f('a\n')", "t:1:3: Parse error: unfinished string literal" },
                { "\n f('''", "t:2:1: Parse error: unexpected new indentation block, expected expression" },
                { "f('\\xg0')", "t:1:4: Parse error: invalid string escape sequence `x`" },
                { "f('\\ud800')", "t:1:4: Parse error: invalid string escape sequence `ud800`" },
                { "f('\\U00110000')", "t:1:4: Parse error: invalid string escape sequence `U00110000`" },
                { "f('\xc3\xa9', $)", "t:1:8: Parse error: invalid input `$`" },
                { "f('a\rb')", "t:1:5: Parse error: invalid input `\\x0d`" },
                { "f(1)\\", "t:1:5: Parse error: invalid input `\\`" },
                { "\xc3\xa9 = 1", "t:1:1: Parse error: invalid input `\xc3\xa9`" },
                { "\xef\xbb\xbf"
                  "f()",
                  "t:1:1: Parse error: invalid input `\xef\xbb\xbf`" },
                { "f(017)", "t:1:3: Parse error: integer cannot have leading 0, got `017`" },
                { "f(0x)", "t:1:3: Parse error: invalid input `0x`" },
                { "\n\n\xff", "t:3:1: the text is not UTF-8" },
                { "while True:", "t:1:1: Parse error: cannot use reserved keyword `while`" },
                { "class = 1", "t:1:1: Parse error: cannot use reserved keyword `class`" },
                { "h(1)", "t:1:1: Variable `h` not found" },
                { "f(x)", "t:1:3: Variable `x` not found" },
                { "x += [1]", "t:1:1: Variable `x` not found" },
                { "f(['a'] + 'b')", "t:1:3: Operation `+` not supported for types `list` and `string`" },
                { "f(None + None)",
                  "t:1:3: Operation `+` not supported for types `NoneType` and `NoneType`" },
                { "f(a=1, a=2)", "t:1:8: repeated named argument" },
                { "f(a=1, 2)", "t:1:8: positional argument after non positional" },
                { "\ng(1)", "t:2:1: g says no" },
                { "load('x', 'y')", "t:1:1: No imports are available: `load` is not supported" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _run_ struct run r = run(slice_from_str(table[i].text));
                eq_str(r.err.text, table[i].error);
        }
}

TEST(what_is_starlark_but_not_declarative_is_called_unsupported)
{
        static const struct {
                const char *text, *what;
        } table[] = {
                { "for x in []:\n    f(x)", "t:1:1: unsupported Starlark construct: `for`" },
                { "if True:\n    f(1)", "t:1:1: unsupported Starlark construct: `if`" },
                { "def h():\n    f(1)", "t:1:1: unsupported Starlark construct: `def`" },
                { "pass", "t:1:1: unsupported Starlark construct: `pass`" },
                { "f(1 if True else 2)", "t:1:5: unsupported Starlark construct: `if`" },
                { "f([x for x in []])", "t:1:6: unsupported Starlark construct: `for`" },
                { "f(not True)", "t:1:3: unsupported Starlark construct: `not`" },
                { "f(lambda: 1)", "t:1:3: unsupported Starlark construct: `lambda`" },
                { "f('a'.upper())", "t:1:6: unsupported Starlark construct: `.`" },
                { "f(['a'][0])", "t:1:8: unsupported Starlark construct: `[`" },
                { "f('a' * 2)", "t:1:7: unsupported Starlark construct: `*`" },
                { "f(-1)", "t:1:3: unsupported Starlark construct: `-`" },
                { "f(1.5)", "t:1:3: unsupported Starlark construct: a number with a fraction" },
                { "f({})", "t:1:3: unsupported Starlark construct: `{`" },
                { "f(*[])", "t:1:3: unsupported Starlark construct: `*`" },
                { "f(**x)", "t:1:3: unsupported Starlark construct: `**`" },
                { "f(1) + 2", "t:1:6: unsupported Starlark construct: `+`" },
                { "f(1 + 1)", "t:1:3: unsupported Starlark construct: a sum of integers" },
                { "f(f(1))", "t:1:3: unsupported Starlark construct: a call inside of an expression" },
                { "x = f(1)", "t:1:5: unsupported Starlark construct: a call inside of an expression" },
                { "x = f", "t:1:5: unsupported Starlark construct: a function as a value" },
                { "f = 1",
                  "t:1:1: unsupported Starlark construct: another meaning for a name of the language" },
                { "True = 1",
                  "t:1:1: unsupported Starlark construct: another meaning for a name of the language" },
                { "f(f'a')", "t:1:3: unsupported Starlark construct: an f-string" },
                { "f(b'a')", "t:1:3: unsupported Starlark construct: a bytes literal" },
                { "x = 1\nx == 1", "t:2:3: unsupported Starlark construct: `==`" },
                { "x: int = 1", "t:1:2: unsupported Starlark construct: `:`" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _run_ struct run r = run(slice_from_str(table[i].text));
                eq_str(r.err.text, table[i].what);
        }
}

TEST(no_list_comes_to_contain_itself)
{
        static const char *const texts[] = {
                "A = ['a']\nA += [A]",
                "A = ['a']\nB = [A]\nA += [B]",
                "A = []\nB = [A]\nA += B\n",
                "A = []\nA += [(A,)]",
        };
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                _run_ struct run r = run(slice_from_str(texts[i]));
                ok(strstr(r.err.text, "unsupported Starlark construct: `+=` with lists of lists"));
        }
        _run_ struct run good = run(S("A = ['a']\nB = ['b']\nA += [B]\nB += ['c']\nf(A)"));
        eq_str(good.calls.p, "f([\"a\", [\"b\", \"c\"]],)");
}

TEST(a_few_lines_cannot_make_endless_work)
{
        _buf_ struct buf lists = BUF_INIT(10000), strings = BUF_INIT(10000), shared = BUF_INIT(100000);

        assert_int_equal(buf_append(&lists, S("A = ['a']\n")) |
                                 buf_append(&strings, S("A = '0123456789'\n")) |
                                 buf_append(&shared, S("A = ['a']\n")),
                         0);
        for (int i = 0; i < 60; i++) {
                assert_int_equal(buf_append(&lists, S("A += A\n")) | buf_append(&strings, S("A = A + A\n")),
                                 0);
                assert_int_equal(buf_append(&shared, S("A = [A, A]\n")), 0);
        }
        _run_ struct run r = run(buf_slice(&lists));
        ok(strstr(r.err.text, "the rules are too large: they need more than 500000 steps"));
        _run_ struct run s = run(buf_slice(&strings));
        ok(strstr(s.err.text, "the rules are too large"));

        /* A value of 2^60 items takes no memory, because its lists are shared, and showing it comes to an end. */
        assert_int_equal(buf_append(&shared, S("f(A)\n")), 0);
        _run_ struct run t = run(buf_slice(&shared));
        eq_int(t.err.code, 0);
        ok(t.calls.n < 1000);
}

TEST(brackets_may_be_nested_up_to_the_limit)
{
        _buf_ struct buf text = BUF_INIT(10000);

        for (int depth = LIMIT_RULES_DEPTH; depth <= LIMIT_RULES_DEPTH + 1; depth++) {
                buf_truncate(&text, 0);
                for (int i = 0; i < depth; i++)
                        assert_int_equal(buf_append_char(&text, '['), 0);
                for (int i = 0; i < depth; i++)
                        assert_int_equal(buf_append_char(&text, ']'), 0);
                _run_ struct run r = run(buf_slice(&text));
                eq_str(r.err.text, depth == LIMIT_RULES_DEPTH
                                           ? ""
                                           : "t:1:65: more than 64 brackets inside of each other");
        }
}

TEST(every_truncation_is_read_or_refused_with_a_position)
{
        static const struct slice text =
                S("# c\r\nA = [r'a\\b', \"\\x41\\u00e9\", '''x\ny''']\nA += ('b',)\n"
                  "f(pattern=A + [\"c\"], \\\n  decision = (None, True, 0x1f), ); f(\"é\")\n");

        for (size_t n = 0; n <= text.n; n++) {
                _run_ struct run r = run(slice_from(text.p, n));
                ok(r.err.code == 0 || strncmp(r.err.text, "t:", 2) == 0);
        }
}
