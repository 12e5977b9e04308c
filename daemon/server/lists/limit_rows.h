/* Every limit in force, as rows for LIMITS_REPLY. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* A file (answers.h) with a row for each limit that the session may see. */
int limit_rows_make(struct session *session, uint32_t *ret_n_rows, int *ret_fd);
