#include "bench/peers/comparing.h"

int compare_killed(struct comparing *comparing)
{
        (void)comparing;
        return 0;
}
