/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/commands.h"

#include "base/err.h"

static const struct command *const commands[] = {
#define COMMAND(name) &name##_command,
#include "ctl/core/command.def"
#undef COMMAND
};

const struct command *command_at(unsigned n)
{
        return n < ARRAY_SIZE(commands) ? commands[n] : NULL;
}
