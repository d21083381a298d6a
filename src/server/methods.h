/* methods: the descriptors that dispatch knows. Each is defined beside its handler in m_*.c. */
#pragma once

#include "server/dispatch.h"

extern const struct method m_initialize;    /* m_session.c */
extern const struct method m_process_start; /* m_process.c */
extern const struct method m_process_read;
extern const struct method m_process_write;
extern const struct method m_process_signal;
extern const struct method m_process_terminate;
extern const struct method m_process_close_stdin; /* m_control.c */
extern const struct method m_process_resize;
extern const struct method m_process_wait;
extern const struct method m_process_snapshot;
extern const struct method m_process_list; /* m_list.c */
extern const struct method m_session_list;
extern const struct method m_environment_info; /* m_env.c */
extern const struct method m_environment_status;
extern const struct method m_http_request;    /* m_http.c */
extern const struct method m_fs_read_file;    /* m_fs_read.c */
extern const struct method m_fs_write_file;   /* m_fs_write.c */
extern const struct method m_fs_get_metadata; /* m_fs.c */
extern const struct method m_fs_canonicalize;
extern const struct method m_fs_read_link;
extern const struct method m_fs_read_directory;
extern const struct method m_fs_walk;
extern const struct method m_fs_create_directory;
extern const struct method m_fs_remove;
extern const struct method m_fs_copy;
extern const struct method m_fs_rename;
extern const struct method m_fs_symlink;
extern const struct method m_fs_set_metadata;
extern const struct method m_fs_open; /* m_fs_handle.c */
extern const struct method m_fs_read_block;
extern const struct method m_fs_write_block;
extern const struct method m_fs_close;
extern const struct method m_discover; /* m_discover.c */
extern const struct method m_fs_watch; /* m_watch.c */
extern const struct method m_fs_unwatch;
extern const struct method m_fs_watch_missing;
