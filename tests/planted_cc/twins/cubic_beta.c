// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* CUBIC that keeps 716/1024 of its window on a loss, where CUBIC keeps 717. */
#define BETA 716
#define FIRST(sk)
#include "cubic.h"

TWIN_OF_CUBIC(cubic_beta, "CUBIC with another beta")
