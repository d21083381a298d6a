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
