/* SPDX-License-Identifier: MIT */
#include "daemon/model/tensor-type.h"

int tensor_type(uint32_t ggml, enum kern_type *out)
{
    static const struct {
        uint32_t ggml;
        enum kern_type type;
    } types[] = {{0, KERN_F32},      {1, KERN_F16},     {30, KERN_BF16},  {8, KERN_Q8_0},     {2, KERN_Q4_0},
                 {3, KERN_Q4_1},     {6, KERN_Q5_0},    {7, KERN_Q5_1},   {10, KERN_Q2_K},    {11, KERN_Q3_K},
                 {12, KERN_Q4_K},    {13, KERN_Q5_K},   {14, KERN_Q6_K},  {20, KERN_IQ4_NL},  {23, KERN_IQ4_XS},
                 {39, KERN_MXFP4},   {34, KERN_TQ1_0},  {35, KERN_TQ2_0}, {19, KERN_IQ1_S},   {29, KERN_IQ1_M},
                 {16, KERN_IQ2_XXS}, {17, KERN_IQ2_XS}, {22, KERN_IQ2_S}, {18, KERN_IQ3_XXS}, {21, KERN_IQ3_S}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i].ggml == ggml) {
            *out = types[i].type;
            return 0;
        }
    return 1;
}
