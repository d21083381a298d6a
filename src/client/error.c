/* error: fills the public error of the library. Texts of the server are kept as they are: the caller that prints them must escape
 * them. */
#include "client/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int error_from_err(struct farhand_error *ret, const struct err *err)
{
        if (!ret)
                return err->code;
        *ret = (struct farhand_error){ .code = err->code };
        struct err cut = ERR_INIT;
        (void)err_set(&cut, 0, err->code, "%.*s", (int)sizeof(ret->text) - 4, err->text);
        memcpy(ret->text, cut.text, strnlen(cut.text, sizeof(ret->text) - 1));
        return err->code;
}

int error_set(struct farhand_error *ret, int code, const char *fmt, ...)
{
        struct err err = ERR_INIT;
        char text[ERR_TEXT_BYTES];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void)err_set(&err, 0, code, "%s", text);
        return error_from_err(ret, &err);
}

int error_copy(struct farhand_error *ret, const struct farhand_error *from)
{
        if (ret)
                *ret = *from;
        return from->code;
}

int error_from_message(struct farhand_error *ret, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        int64_t code = 0;
        if (json_i64(&m->doc, json_get(&m->doc, m->error, S("code")), &code) < 0)
                code = RPC_INTERNAL;
        struct slice text = json_string(&a, &m->doc, json_get(&m->doc, m->error, S("message")));
        (void)error_set(ret, -EREMOTEIO, "%.*s", (int)MIN(text.n, sizeof(ret->text)), text.p);
        if (!ret)
                return -EREMOTEIO;
        ret->rpc_code = (int)code;
        const struct json *data = json_get(&m->doc, m->error, S("data"));
        struct slice raw = data ? json_raw(&m->doc, data) : S("");
        if (data && data->type == JSON_OBJECT && raw.n < sizeof(ret->data))
                memcpy(ret->data, raw.p, raw.n);
        return -EREMOTEIO;
}

int farhand_error_errno(const struct farhand_error *error)
{
        static const char member[] = "\"errno\":", suffix[] = "(os error ";
        const char *at = strstr(error->data, member);
        if (at)
                return (int)strtol(at + strlen(member), NULL, 10);
        at = error->rpc_code ? strstr(error->text, suffix) : NULL;
        return at ? (int)strtol(at + strlen(suffix), NULL, 10) : 0;
}
