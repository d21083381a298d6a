/* m_discover: the method capabilityRoots/discoverV1 (docs/PROTOCOL.md): finds plugins and skills below several roots in one
 * request. Each root may have a sandbox of its own. */
#include "confine/fs_helpers.h"
#include "core/job.h"
#include "core/server.h"
#include "files/answer.h"
#include "proto/fs.h"
#include "server/methods.h"

/* Writes a failure at one root as the result of that root, and goes on with the other roots. */
static int run_discover(struct job *job, struct jsonw *w, UNUSED struct err *err)
{
        const struct discover_roots *in = job->params;
        jsonw_object(w);
        jsonw_key(w, "roots");
        jsonw_array(w);
        for (size_t i = 0; i < in->count && !w->has_overflowed; i++) {
                struct err why = ERR_INIT;
                struct file_request r = job_file_request(job);
                r.method = &file_discover_root;
                r.params = &in->roots[i];
                r.sandbox = in->roots[i].sandbox;
                if (fs_helpers_run(&job->server->fs_helpers, &r, w, &why) < 0)
                        fs_write_root_failure(w, &in->roots[i], why.text);
        }
        jsonw_array_end(w);
        jsonw_object_end(w);
        return 0;
}

static const struct job_class discover = { .run = run_discover };

const struct method discover_methods[] = {
        { .name = "capabilityRoots/discoverV1",
          .family = "capability discovery",
          .needs = NEEDS_READY,
          METHOD_PARAMS(discover_roots),
          METHOD_SANDBOX(discover_roots),
          .job = &discover },
};
const size_t discover_method_count = ARRAY_LEN(discover_methods);
