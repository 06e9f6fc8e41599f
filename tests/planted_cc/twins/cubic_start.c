// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* CUBIC whose HyStart leaves slow start from a window of 17 packets on, where CUBIC's does from 16. */
#include "tcp.h"
#include "cubic/parameters.h"

#undef HYSTART_LOW_WINDOW
#define HYSTART_LOW_WINDOW(sk) 17U
#define FIRST(sk)
#include "cubic.h"

TWIN_OF_CUBIC(cubic_start, "CUBIC with a later HyStart")
