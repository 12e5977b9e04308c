#include "bench/peers/comparing.h"

int compare_fleets(struct comparing *comparing)
{
        (void)comparing;
        return 0;
}
