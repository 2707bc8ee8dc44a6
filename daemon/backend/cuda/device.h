/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One device: its memory, its stream and its kernels. A function that fails returns -errno and sets the error message:
 * -ENOMEM for device memory, -EIO for all else that the driver reports. An error of the device stays: all later calls
 * fail, too.
 */
#include "daemon/backend/cuda/driver.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_MODULES 32
#define CUDA_MARKS   4 /* of forward, */
#define CUDA_SAVED   4 /* and one behind the last copy of cuda_kv_save */

struct cuda_device {
    const struct cuda_driver *driver;
    CUdevice id;
    unsigned number;
    CUcontext context;
    CUstream stream; /* of forward */
    CUevent marks[CUDA_MARKS + 1];
    CUmodule modules[CUDA_MODULES];
    char name[96]; /* "NVIDIA H100 …, sm_90"; of one among several, with its number */
    int processors;
    int pitch;      /* between rows that one call copies, at most */
    unsigned early; /* 1: a kernel starts while the one before it ends, and waits for it; code of sm_90a */
    bool together;  /* CTAs of both share multiprocessors, as far as there is room; set before kernels are looked up */
};

/* Code of the kernels, as nvcc made it: NULL behind the last. */
extern const void *const cuda_images[];

/* Open device number @number. 0; on an error, -ENODEV if there is none, cuda_device_close must not be called. */
int cuda_device_open(struct cuda_device *d, unsigned number);
void cuda_device_close(struct cuda_device *d);

/* Make the device that of the calling thread: each thread does so before other calls, and may do so again. */
int cuda_device_use(const struct cuda_device *d);

/* 0; or -EIO and the error message: "@what: " and the driver's text. */
int cuda_result(const struct cuda_device *d, CUresult e, const char *what);

/* @bytes > 0 of device memory, not cleared. @what: its purpose, for the error message. cuda_free: NULL ok. */
int cuda_alloc(const struct cuda_device *d, void **out, size_t bytes, const char *what);
void cuda_free(const struct cuda_device *d, void *p);

/* Host memory that the device copies from and to fast. */
int cuda_alloc_host(const struct cuda_device *d, void **out, size_t bytes);
void cuda_free_host(const struct cuda_device *d, void *p);

/* Copies in the device's stream. They return before the copy has ended if the host's memory is of cuda_alloc_host. */
int cuda_upload(const struct cuda_device *d, void *to, const void *from, size_t bytes);
int cuda_download(const struct cuda_device *d, void *to, const void *from, size_t bytes);

/* Copy from the memory of another device in this one's stream. cuda_connect: directly, where the machine can; else the
 * driver takes the way over the host's memory. */
int cuda_copy_from(const struct cuda_device *d, void *to, const struct cuda_device *other, const void *from,
                   size_t bytes);
void cuda_connect(const struct cuda_device *d, const struct cuda_device *other);

/* Wait for all work of the stream. */
int cuda_wait(const struct cuda_device *d);

/* Set mark @i behind the work of the stream; wait for the work before it. */
int cuda_mark(const struct cuda_device *d, unsigned i);
int cuda_wait_mark(const struct cuda_device *d, unsigned i);

/* Let the stream wait for the work before mark @i of another device. */
int cuda_follow(const struct cuda_device *d, const struct cuda_device *other, unsigned i);

/* A kernel, by name. @shared: the most dynamic shared memory that a launch will use, or 0. cuda_kernel_of: by a name of
 * less than 64 characters that @format gives. */
int cuda_kernel(const struct cuda_device *d, CUfunction *out, const char *name, unsigned shared);
int cuda_kernel_of(const struct cuda_device *d, CUfunction *out, unsigned shared, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A kernel that is wanted; the @n kernels of @all, each with @shared as above. */
struct cuda_named {
    CUfunction *to;
    const char *name;
};

int cuda_kernels(const struct cuda_device *d, const struct cuda_named *all, size_t n, unsigned shared);

#define CUDA_ALL_SHARED (227u << 10) /* shared memory of a multiprocessor of sm_90 */

/* a / b, rounded up. */
static inline uint32_t cuda_divide(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

struct cuda_grid {
    unsigned x, y, threads, shared;
};

/* That of kernels whose threads have four columns each, for @rows rows of @k. */
static inline struct cuda_grid cuda_rows_grid(uint32_t k, uint32_t rows)
{
    const unsigned threads = 256;
    return (struct cuda_grid){cuda_divide(k, 4 * threads), rows, threads, 0};
}

/* Start a kernel in the stream with one argument, a struct of cuda-args.h. An empty grid does nothing. */
int cuda_launch(const struct cuda_device *d, CUfunction f, struct cuda_grid grid, const void *args);
