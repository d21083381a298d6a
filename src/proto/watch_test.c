/* watch_test: params of the watching methods. */
#include "proto/watch.h"

#include "proto/test_internal.h"
#include "unit.h"

#include <errno.h>

#define LONG_ID "0123456789012345678901234567890123456789012345678901234567890123" /* 64 bytes */

static void refuses(params_decode *decode, const char *text, int rpc, const char *message)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        char room[128] = { 0 };

        ok(test_decode(&a, decode, text, room, &err) < 0);
        eq_str(err.text, message);
        eq_int(err.client_code, rpc);
}

TEST(a_watch_needs_an_id_and_a_path)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_watch in = { 0 };

        eq_int(test_decode(&a, fs_watch_decode, "{'watchId':'" LONG_ID "','path':'file:///a%20b'}", &in,
                           &err),
               0);
        eq_slice(in.watch_id, S(LONG_ID));
        eq_str(in.path.p, "/a b");
        ok(!in.is_recursive);
        eq_int(test_decode(&a, fs_watch_decode, "{'watchId':'w','path':'/x','recursive':true}", &in, &err),
               0);
        ok(in.is_recursive);
}

TEST(a_watch_with_bad_params_is_refused)
{
        const char *id = "watchId must have 1 to 64 bytes, none of them zero";

        refuses(fs_watch_decode, "{'path':'/x'}", RPC_INVALID_PARAMS, "missing field `watchId`");
        refuses(fs_watch_decode, "{'watchId':'w'}", RPC_INVALID_PARAMS, "missing field `path`");
        refuses(fs_watch_decode, "{'watchId':'','path':'/x'}", RPC_INVALID_PARAMS, id);
        refuses(fs_watch_decode, "{'watchId':'" LONG_ID "+','path':'/x'}", RPC_INVALID_PARAMS, id);
        refuses(fs_watch_decode, "{'watchId':'a\\u0000','path':'/x'}", RPC_INVALID_PARAMS, id);
        refuses(fs_watch_decode, "{'watchId':'w','path':'/x','recursive':null}", RPC_INVALID_PARAMS,
                "recursive: invalid type: null, expected a boolean");
        refuses(fs_watch_decode, "{'watchId':'w','path':'/x','sandbox':5}", RPC_INVALID_PARAMS,
                "invalid type: number, expected struct WireFileSystemSandboxContext");
        refuses(fs_unwatch_decode, "{}", RPC_INVALID_PARAMS, "missing field `watchId`");
        refuses(fs_unwatch_decode, "{'watchId':''}", RPC_INVALID_PARAMS, id);
}

TEST(missing_paths_are_a_list)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_watch_missing in = { 0 };

        eq_int(test_decode(&a, fs_watch_missing_decode,
                           "{'watchId':18446744073709551615,'missing':['/a','file:///b'],'present':'/c'}",
                           &in, &err),
               0);
        eq_u64(in.watch_id, UINT64_MAX);
        eq_u64(in.missing_count, 2);
        eq_str(in.missing[0].p, "/a");
        eq_str(in.missing[1].p, "/b");
        eq_str(in.present.p, "/c");
        ok(!in.is_foreign);
}

TEST(a_missing_path_of_another_platform_is_no_mistake)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct fs_watch_missing in = { 0 };

        eq_int(test_decode(&a, fs_watch_missing_decode,
                           "{'watchId':1,'missing':['file:///C:/x'],'present':null}", &in, &err),
               0);
        ok(in.is_foreign);
        ok(!in.present.p);
}

TEST(missing_paths_with_bad_params_are_refused)
{
        refuses(fs_watch_missing_decode, "{}", RPC_INVALID_PARAMS, "missing field `watchId`");
        refuses(fs_watch_missing_decode, "{'watchId':'x'}", RPC_INVALID_PARAMS,
                "invalid type: string \"x\", expected u64");
        refuses(fs_watch_missing_decode, "{'watchId':1}", RPC_INVALID_PARAMS, "missing field `missing`");
        refuses(fs_watch_missing_decode, "{'watchId':1,'missing':[5]}", RPC_INVALID_PARAMS,
                "invalid type: number, expected a string");
        refuses(fs_watch_missing_decode, "{'watchId':1,'missing':['x:y']}", RPC_INVALID_PARAMS,
                "unsupported path URI scheme `x`");
}
