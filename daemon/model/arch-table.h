/* SPDX-License-Identifier: MIT */
#pragma once
/* The descriptions of all architectures, by the first letter of their names. Each table ends with a name of NULL. */
#include "daemon/model/arch.h"

extern const struct arch arch_a_f[], arch_g_l[], arch_m_o[], arch_p_z[];
