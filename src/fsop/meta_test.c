/* meta_test: what is reported about a file: kind, times, digest, canonical path, text of a link. */
#include "fsop/meta.h"

#include "fsop/rig.h"
#include "unit.h"

#include <errno.h>

static const char *metadata_error(const char *path, bool follow, struct err *err)
{
        struct fs_meta meta;

        *err = ERR_INIT;
        int r = fsop_metadata(path, follow, &meta, NULL, err);
        ok(r < 0);
        eq_int(r, err->code);
        return err->text;
}

static struct fs_meta metadata(const char *path, bool follow)
{
        struct err err = ERR_INIT;
        struct fs_meta meta;

        eq_int(fsop_metadata(path, follow, &meta, NULL, &err), 0);
        return meta;
}

static void set_modified(const char *path, time_t seconds, long nanoseconds)
{
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
                                     { .tv_sec = seconds, .tv_nsec = nanoseconds } };
        eq_int(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

TEST(metadata_tells_what_a_file_is)
{
        _rig_ struct rig rig = rig_new();

        rig_file(&rig, "file", S("hello"));
        eq_int(chmod(rig_path(&rig, "file"), 04750), 0);
        eq_int(link(rig_path(&rig, "file"), rig_path(&rig, "other")), 0);
        set_modified(rig_path(&rig, "file"), 1000, 1999999);

        for (int follow = 0; follow < 2; follow++) {
                struct fs_meta meta = metadata(rig_path(&rig, "file"), follow);
                ok(meta.is_file && !meta.is_directory && !meta.is_symlink && !meta.has_digest);
                eq_u64(meta.size, 5);
                eq_int(meta.modified_ms, 1000001);
                eq_int(meta.mode, 04750);
                eq_int(meta.uid, geteuid());
                eq_u64(meta.links, 2);
        }
        set_modified(rig_path(&rig, "file"), -2, 500000000);
        eq_int(metadata(rig_path(&rig, "file"), true).modified_ms, -1500);
}

TEST(metadata_of_directories_and_special_files)
{
        _rig_ struct rig rig = rig_new();

        rig_fifo(&rig, "fifo");
        for (int follow = 0; follow < 2; follow++) {
                struct fs_meta meta = metadata(rig_path(&rig, "fifo"), follow);
                ok(!meta.is_file && !meta.is_directory && !meta.is_symlink);
                meta = metadata("/dev/null", follow);
                ok(!meta.is_file && !meta.is_directory && !meta.is_symlink);
                meta = metadata(rig.root, follow);
                ok(!meta.is_file && meta.is_directory && !meta.is_symlink);
                meta = metadata("/", follow);
                ok(meta.is_directory);
        }
}

TEST(metadata_follows_links_and_still_tells_that_it_was_one)
{
        _rig_ struct rig rig = rig_new();
        struct err err;

        rig_file(&rig, "file", S("hello"));
        rig_link(&rig, "to-file", "file");
        rig_link(&rig, "to-dir", ".");
        rig_link(&rig, "to-nothing", "nothing");
        rig_link(&rig, "loop", "loop");

        struct fs_meta meta = metadata(rig_path(&rig, "to-file"), true);
        ok(meta.is_file && meta.is_symlink && !meta.is_directory);
        eq_u64(meta.size, 5);
        meta = metadata(rig_path(&rig, "to-dir"), true);
        ok(meta.is_directory && meta.is_symlink && !meta.is_file);
        meta = metadata(rig_path(&rig, "to-dir/file"), true);
        ok(meta.is_file && !meta.is_symlink);

        eq_str(metadata_error(rig_path(&rig, "to-nothing"), true, &err),
               "No such file or directory (os error 2)");
        eq_str(metadata_error(rig_path(&rig, "loop"), true, &err), "Symbolic link loop (os error 40)");
        eq_str(metadata_error(rig_path(&rig, "file/x"), true, &err), "Not a directory (os error 20)");
}

TEST(metadata_without_following_refuses_links)
{
        _rig_ struct rig rig = rig_new();
        const char *refused[] = { "to-file", "to-dir", "to-dir/", "to-nothing" };
        struct err err;

        rig_file(&rig, "file", S("hello"));
        rig_link(&rig, "to-file", "file");
        rig_link(&rig, "to-dir", ".");
        rig_link(&rig, "to-nothing", "nothing");

        for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
                eq_str(metadata_error(rig_path(&rig, refused[i]), false, &err),
                       "path contains a symbolic link");
                eq_int(err.code, -EINVAL);
                eq_int(err.os_errno, 0);
        }
        eq_str(metadata_error(rig_path(&rig, "to-dir/file"), false, &err), "Not a directory (os error 20)");
        eq_str(metadata_error(rig_path(&rig, "none"), false, &err), "No such file or directory (os error 2)");
}

TEST(metadata_tells_when_a_file_was_made)
{
        _rig_ struct rig rig = rig_new();
        struct statx stx;

        rig_file(&rig, "file", S(""));
        set_modified(rig_path(&rig, "file"), 1000, 0);
        eq_int(statx(AT_FDCWD, rig_path(&rig, "file"), 0, STATX_BTIME, &stx), 0);
        if (!(stx.stx_mask & STATX_BTIME))
                rig_skip(&rig);
        for (int follow = 0; follow < 2; follow++)
                eq_int(metadata(rig_path(&rig, "file"), follow).created_ms,
                       stx.stx_btime.tv_sec * 1000 + stx.stx_btime.tv_nsec / 1000000);
        eq_int(symlink("file", rig_path(&rig, "link")), 0);
        eq_int(metadata(rig_path(&rig, "link"), true).created_ms,
               stx.stx_btime.tv_sec * 1000 + stx.stx_btime.tv_nsec / 1000000);
}

static const uint8_t sha256_of_abc[FS_DIGEST_BYTES] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
        0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
};

TEST(digest_is_that_of_the_whole_file_wherever_the_offset_is)
{
        _rig_ struct rig rig = rig_new();
        uint8_t digest[FS_DIGEST_BYTES];

        rig_file(&rig, "file", S("abc"));
        _close_ int fd = open(rig_path(&rig, "file"), O_RDONLY | O_CLOEXEC);
        eq_int(lseek(fd, 2, SEEK_SET), 2);
        eq_int(fsop_digest_fd(fd, digest), 0);
        assert_memory_equal(digest, sha256_of_abc, sizeof(digest));
        eq_int(lseek(fd, 0, SEEK_CUR), 2);
        eq_int(fsop_digest_fd(-1, digest), -EBADF);
}

TEST(metadata_adds_the_digest_of_regular_files_only)
{
        _rig_ struct rig rig = rig_new();
        uint8_t digest[FS_DIGEST_BYTES];
        struct err err = ERR_INIT;
        struct fs_meta meta;

        rig_file(&rig, "file", S("abc"));
        rig_link(&rig, "link", "file");
        rig_fifo(&rig, "fifo");

        eq_int(fsop_metadata(rig_path(&rig, "link"), true, &meta, digest, &err), 0);
        ok(meta.has_digest && meta.is_symlink && meta.is_file);
        eq_u64(meta.size, 3);
        assert_memory_equal(digest, sha256_of_abc, sizeof(digest));

        memset(digest, 0, sizeof(digest));
        eq_int(fsop_metadata(rig_path(&rig, "file"), false, &meta, digest, &err), 0);
        ok(meta.has_digest);
        assert_memory_equal(digest, sha256_of_abc, sizeof(digest));

        eq_int(fsop_metadata(rig.root, true, &meta, digest, &err), 0);
        ok(!meta.has_digest && meta.is_directory);
        eq_int(fsop_metadata(rig_path(&rig, "fifo"), false, &meta, digest, &err), 0);
        ok(!meta.has_digest);
}

TEST(file_above_the_limit_has_metadata_without_a_digest)
{
        _rig_ struct rig rig = rig_new();
        uint8_t digest[FS_DIGEST_BYTES];
        struct err err = ERR_INIT;
        struct fs_meta meta;

        rig_file(&rig, "big", S(""));
        if (truncate(rig_path(&rig, "big"), FS_DIGEST_FILE_MAX + 1) < 0)
                rig_skip(&rig); /* the file system has no sparse files */
        eq_int(fsop_metadata(rig_path(&rig, "big"), true, &meta, digest, &err), 0);
        ok(!meta.has_digest);
        eq_u64(meta.size, FS_DIGEST_FILE_MAX + 1);
}

TEST(canonical_path_has_no_links_and_no_dots)
{
        _rig_ struct rig rig = rig_new();
        _buf_ struct buf path = BUF_INIT(PATH_MAX);
        struct err err = ERR_INIT;

        rig_directory(&rig, "d\xff");
        rig_file(&rig, "d\xff/file", S(""));
        rig_link(&rig, "l", "d\xff/../d\xff");
        rig_link(&rig, "loop", "loop");
        rig_link(&rig, "to-nothing", "nothing");

        eq_int(fsop_canonicalize(rig_path(&rig, "l/./../l//file"), &path, &err), 0);
        eq_slice(buf_slice(&path), slice_from_str(rig_path(&rig, "d\xff/file")));

        buf_truncate(&path, 0);
        eq_int(fsop_canonicalize(rig_path(&rig, "loop"), &path, &err), -ELOOP);
        eq_int(fsop_canonicalize(rig_path(&rig, "to-nothing"), &path, &err), -ENOENT);
        eq_int(fsop_canonicalize(rig_path(&rig, "l/file/x"), &path, &err), -ENOTDIR);
        eq_int(path.n, 0);

        _buf_ struct buf small = BUF_INIT(3);
        eq_int(fsop_canonicalize(rig.root, &small, &err), -ENAMETOOLONG);
        eq_int(small.n, 0);
}

TEST(deleted_file_has_no_canonical_path)
{
        _rig_ struct rig rig = rig_new();
        _buf_ struct buf path = BUF_INIT(PATH_MAX);
        struct err err = ERR_INIT;
        char link[64];

        rig_file(&rig, "file", S(""));
        _close_ int fd = open(rig_path(&rig, "file"), O_RDONLY | O_CLOEXEC);
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        eq_int(fsop_canonicalize(link, &path, &err), 0);
        eq_slice(buf_slice(&path), slice_from_str(rig_path(&rig, "file")));

        buf_truncate(&path, 0);
        eq_int(unlink(rig_path(&rig, "file")), 0);
        eq_int(fsop_canonicalize(link, &path, &err), -ENOENT);
        eq_int(path.n, 0);
}

TEST(link_is_read_as_bytes)
{
        _rig_ struct rig rig = rig_new();
        _buf_ struct buf target = BUF_INIT(PATH_MAX);
        struct err err = ERR_INIT;

        rig_file(&rig, "file", S(""));
        rig_link(&rig, "link", "no/such/\xff thing");
        eq_int(fsop_read_link(rig_path(&rig, "link"), &target, &err), 0);
        eq_slice(buf_slice(&target), S("no/such/\xff thing"));

        eq_int(fsop_read_link(rig_path(&rig, "file"), &target, &err), -EINVAL);
        eq_str(err.text, "Invalid argument (os error 22)");
        eq_int(fsop_read_link(rig_path(&rig, "none"), &target, &err), -ENOENT);
}
