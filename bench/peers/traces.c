#include "bench/peers/comparing.h"

int compare_traces(struct comparing *comparing)
{
        (void)comparing;
        return 0;
}
