#include "client/switches.h"

_Atomic unsigned switches;
