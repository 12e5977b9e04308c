/* SPDX-License-Identifier: Apache-2.0 */
/* All commands of gpumemctl, in the order of its help. One thread. */
#pragma once

#include "ctl/core/command.h"

/* The n-th; NULL behind the last. */
const struct command *command_at(unsigned n);
