#include "daemon/backing/left.h"

#include <stdatomic.h>

static atomic_bool any;

void left_note(void)
{
        atomic_store(&any, true);
}

bool left_any(void)
{
        return atomic_load(&any);
}
