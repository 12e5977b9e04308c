/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/switches.h"

_Atomic unsigned switches;
