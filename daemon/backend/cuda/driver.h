/* SPDX-License-Identifier: MIT */
#pragma once
/* The CUDA driver, opened at run time: the program starts without it, too. */
#include <cuda.h>
#include <stdint.h>

/* The functions of the driver that are used. */
#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cuInit)                                                                                                          \
    X(cuGetErrorString)                                                                                                \
    X(cuDriverGetVersion)                                                                                              \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease)                                                                                       \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuMemGetInfo)                                                                                                    \
    X(cuMemAlloc)                                                                                                      \
    X(cuMemFree)                                                                                                       \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemFreeHost)                                                                                                   \
    X(cuMemHostRegister)                                                                                               \
    X(cuMemHostUnregister)                                                                                             \
    X(cuMemcpyHtoDAsync)                                                                                               \
    X(cuMemcpyDtoHAsync)                                                                                               \
    X(cuMemcpyPeerAsync)                                                                                               \
    X(cuMemcpy2DAsync)                                                                                                 \
    X(cuCtxEnablePeerAccess)                                                                                           \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamDestroy)                                                                                                 \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy)                                                                                                  \
    X(cuEventRecord)                                                                                                   \
    X(cuEventSynchronize)                                                                                              \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleUnload)                                                                                                  \
    X(cuModuleGetFunction)                                                                                             \
    X(cuFuncGetAttribute)                                                                                              \
    X(cuFuncSetAttribute)                                                                                              \
    X(cuLaunchKernelEx)                                                                                                \
    X(cuStreamBeginCapture)                                                                                            \
    X(cuStreamEndCapture)                                                                                              \
    X(cuGraphInstantiateWithFlags)                                                                                     \
    X(cuGraphLaunch)                                                                                                   \
    X(cuGraphExecDestroy)                                                                                              \
    X(cuGraphDestroy)

#define CUDA_MEMBER(name) __typeof__(name) *name;
struct cuda_driver {
    CUDA_FUNCTIONS(CUDA_MEMBER)
};

/* Open the driver and start it, once per process; from one thread at a time. Returns 0 and *out, of static storage;
 * -ENODEV and the error message if there is none, or if it is too old or has no device. */
int cuda_driver(const struct cuda_driver **out);

/* Only load its library, which stays loaded. */
int cuda_driver_load(void);

/* Devices that there are; -ENODEV and the error message unless there is a device @number. */
uint32_t cuda_count(const struct cuda_driver *d);
int cuda_check_number(const struct cuda_driver *d, uint32_t number);
