/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The few operations on AMX tiles that amx-matmul.c uses: the CPU's, or with AMX_EMULATE (tests only) an emulation
 * in plain C, which tests the algorithm on CPUs without AMX. Tile numbers are literals, or macros for them. The
 * barriers are for the compiler, whose intrinsics do not declare the memory that they read.
 */
#include <assert.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TILE_MEMORY() __asm__ volatile("" ::: "memory")

/* The operand of ldtilecfg. */
struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "as the CPU reads it");

#ifndef AMX_EMULATE

#define TILE_CONFIGURE(config)                                                                                         \
    do {                                                                                                               \
        TILE_MEMORY();                                                                                                 \
        _tile_loadconfig(config);                                                                                      \
    } while (0)
#define TILE_RELEASE() _tile_release()
#define TILE_ZERO(i)   _tile_zero(i)

#define TILE_LOAD(i, p, stride)                                                                                        \
    do {                                                                                                               \
        TILE_MEMORY();                                                                                                 \
        _tile_loadd(i, p, stride);                                                                                     \
    } while (0)
#define TILE_STORE(i, p, stride)                                                                                       \
    do {                                                                                                               \
        _tile_stored(i, p, stride);                                                                                    \
        TILE_MEMORY();                                                                                                 \
    } while (0)
#define TILE_DPBSSD(c, a, b) _tile_dpbssd(c, a, b)

#else

static struct {
    struct tile_config config; /* palette 0: not configured */
    uint8_t data[8][16][64];
} tile_state;

#define TILE_CONFIGURE(config)   tile_configure(config)
#define TILE_RELEASE()           memset(&tile_state, 0, sizeof(tile_state))
#define TILE_ZERO(i)             memset(tile_state.data[i], 0, sizeof(tile_state.data[i]))
#define TILE_LOAD(i, p, stride)  tile_load(i, p, stride)
#define TILE_STORE(i, p, stride) tile_store(i, p, stride)
#define TILE_DPBSSD(c, a, b)     tile_dpbssd(c, a, b)

static void tile_configure(const struct tile_config *config)
{
    assert(config->palette == 1 && config->start_row == 0);
    for (unsigned i = 0; i < 16; i++) assert(config->rows[i] <= (i < 8 ? 16 : 0) && config->row_bytes[i] <= 64);
    memset(&tile_state, 0, sizeof(tile_state));
    tile_state.config = *config;
}

static void tile_load(unsigned i, const void *p, size_t stride)
{
    assert(tile_state.config.palette && tile_state.config.rows[i]);
    memset(tile_state.data[i], 0, sizeof(tile_state.data[i]));
    for (unsigned r = 0; r < tile_state.config.rows[i]; r++)
        memcpy(tile_state.data[i][r], (const uint8_t *)p + r * stride, tile_state.config.row_bytes[i]);
}

static void tile_store(unsigned i, void *p, size_t stride)
{
    assert(tile_state.config.palette && tile_state.config.rows[i]);
    for (unsigned r = 0; r < tile_state.config.rows[i]; r++)
        memcpy((uint8_t *)p + r * stride, tile_state.data[i][r], tile_state.config.row_bytes[i]);
}

static void tile_dpbssd(unsigned c, unsigned a, unsigned b)
{
    const struct tile_config *f = &tile_state.config;
    assert(f->rows[c] == f->rows[a] && f->row_bytes[c] == f->row_bytes[b] && f->row_bytes[a] == 4 * f->rows[b]);
    for (unsigned m = 0; m < f->rows[c]; m++)
        for (unsigned n = 0; n < f->row_bytes[c] / 4u; n++) {
            int32_t sum;
            memcpy(&sum, tile_state.data[c][m] + 4 * n, 4);
            for (unsigned k = 0; k < f->row_bytes[a]; k++)
                sum += (int8_t)tile_state.data[a][m][k] * (int8_t)tile_state.data[b][k / 4][4 * n + k % 4];
            memcpy(tile_state.data[c][m] + 4 * n, &sum, 4);
        }
}

#endif
