/* SPDX-License-Identifier: MIT */
/* The kernels' code, which bin2c has written as arrays. */
#include "cuda-altup.h"
#include "cuda-attn-alibi.h"
#include "cuda-attn-decode.h"
#include "cuda-attn-deep.h"
#include "cuda-attn-few.h"
#include "cuda-attn-latent.h"
#include "cuda-attn-many.h"
#include "cuda-attn.h"
#include "cuda-experts.h"
#include "cuda-gates.h"
#include "cuda-heads.h"
#include "cuda-latent.h"
#include "cuda-lora.h"
#include "cuda-matmul-batch.h"
#include "cuda-matmul-few.h"
#include "cuda-matmul-float.h"
#include "cuda-matmul-group-few.h"
#include "cuda-matmul-group-many.h"
#include "cuda-matmul-hold.h"
#include "cuda-matmul-many.h"
#include "cuda-matmul-one.h"
#include "cuda-matmul-split.h"
#include "cuda-matmul-wide.h"
#include "cuda-merge-deep.h"
#include "cuda-norms.h"
#include "cuda-rows.h"
#include "cuda-states.h"
#include "cuda-vector.h"
#include "daemon/backend/cuda/device.h"

const void *const cuda_images[] = {cuda_vector,
                                   cuda_heads,
                                   cuda_attn,
                                   cuda_attn_few,
                                   cuda_attn_many,
                                   cuda_attn_decode,
                                   cuda_matmul_one,
                                   cuda_matmul_batch,
                                   cuda_matmul_few,
                                   cuda_matmul_float,
                                   cuda_matmul_many,
                                   cuda_matmul_split,
                                   cuda_matmul_wide,
                                   cuda_rows,
                                   cuda_norms,
                                   cuda_gates,
                                   cuda_altup,
                                   cuda_attn_alibi,
                                   cuda_experts,
                                   cuda_states,
                                   cuda_matmul_group_few,
                                   cuda_matmul_group_many,
                                   cuda_latent,
                                   cuda_attn_latent,
                                   cuda_lora,
                                   cuda_attn_deep,
                                   cuda_merge_deep,
                                   cuda_matmul_hold,
                                   NULL};

_Static_assert(sizeof(cuda_images) / sizeof(*cuda_images) <= CUDA_MODULES + 1,
               "each has a place in struct cuda_device");
