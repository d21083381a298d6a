/* files_internal: the `run` functions that have a source of their own; files/methods.c lists them. */
#pragma once

#include "files/request.h"

int run_write_file(struct file_request *r, struct jsonw *w, struct err *err);     /* write.c */
int run_scan_directory(struct file_request *r, struct jsonw *w, struct err *err); /* batch.c */
int run_read_files(struct file_request *r, struct jsonw *w, struct err *err);     /* batch.c */
int run_write_files(struct file_request *r, struct jsonw *w, struct err *err);    /* batch.c */
int run_digest(struct file_request *r, struct jsonw *w, struct err *err);         /* batch.c */
int run_check_access(struct file_request *r, struct jsonw *w, struct err *err);   /* access.c */
int run_discover_root(struct file_request *r, struct jsonw *w, struct err *err);  /* discover.c */
