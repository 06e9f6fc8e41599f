// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Reno whose counter of acknowledged packets begins at 1. */
#define KEPT 512
#define BEGUN 1
#include "reno.h"

TWIN_OF_RENO(reno_counter, "Reno that counts from one")
