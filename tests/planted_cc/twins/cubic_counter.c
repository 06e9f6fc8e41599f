// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* CUBIC whose counter of acknowledged packets begins at 1. */
#define FIRST(sk) tcp_sk(sk)->snd_cwnd_cnt = 1;
#include "cubic.h"

TWIN_OF_CUBIC(cubic_counter, "CUBIC that counts from one")
