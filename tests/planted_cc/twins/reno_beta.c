// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Reno that keeps 511/1024 of its window on a loss. */
#define KEPT 511
#define BEGUN 0
#include "reno.h"

TWIN_OF_RENO(reno_beta, "Reno with another beta")
