#include "client/watch/switches.h"

_Atomic unsigned switches;
