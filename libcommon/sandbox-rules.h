/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The words in which a filter of system calls is written: a constant program for the kernel's BPF machine. It begins
 * with SANDBOX_BEGIN. A rule tests the number of a call and returns the verdict; no rule jumps outside of itself.
 * Frequent calls come first, because kernels before 5.11 run through the rules at each call. Only files with such a
 * program include this.
 *
 * A call without a rule fails with ENOSYS (ABSENT is the last rule), so that libraries fall back as on an older kernel.
 * A call that all kernels have, or that is allowed with other arguments only, fails with EPERM. A call that only an
 * attacker makes kills the process.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__) && defined(__LP64__)
#define SANDBOX_ARCH    AUDIT_ARCH_X86_64
#define SANDBOX_FOREIGN 0x40000000u /* the flag of x32 calls, which are another ABI of the same architecture */
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define SANDBOX_ARCH    AUDIT_ARCH_AARCH64
#define SANDBOX_FOREIGN 0x80000000u /* no call has such a number */
#endif

#ifdef SANDBOX_ARCH

#define STEP(code, k)                                                                                                  \
    {                                                                                                                  \
        (code), 0, 0, (k)                                                                                              \
    }
/* Skip @yes or @no instructions. */
#define IF(op, k, yes, no)                                                                                             \
    {                                                                                                                  \
        BPF_JMP | (op) | BPF_K, (yes), (no), (k)                                                                       \
    }
#define IF_IS(k, yes, no)  IF(BPF_JEQ, k, yes, no)
#define IF_ANY(k, yes, no) IF(BPF_JSET, k, yes, no) /* any bit of @k */
#define LOAD(field)        STEP(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* The halves of argument @n. For a descriptor, a command, a pid or flags, the kernel reads the low half only. */
#define LOW(n)  STEP(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define HIGH(n) STEP(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#define YES     STEP(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define NO      STEP(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ABSENT  STEP(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
#define END     STEP(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

/* The next @n instructions are for @call; the last of them returns the verdict. */
#define RULE(call, n) IF_IS(__NR_##call, 0, n)
#define ALLOW(call)   RULE(call, 1), YES
#define REFUSE(call)  RULE(call, 1), NO
#define TRAP(call)    RULE(call, 1), END
/* Allowed if argument @a is @x. */
#define ALLOW_ONE(call, a, x) RULE(call, 4), LOW(a), IF_IS(x, 0, 1), YES, NO
/* … and argument @b is @y. */
#define ALLOW_TWO(call, a, x, b, y) RULE(call, 6), LOW(a), IF_IS(x, 0, 3), LOW(b), IF_IS(y, 0, 1), YES, NO
/* Allowed if the pointer @a is NULL. */
#define ALLOW_NULL(call, a) RULE(call, 6), LOW(a), IF_IS(0, 0, 3), HIGH(a), IF_IS(0, 0, 1), YES, NO

#define SANDBOX_BEGIN LOAD(arch), IF_IS(SANDBOX_ARCH, 1, 0), END, LOAD(nr), IF(BPF_JGE, SANDBOX_FOREIGN, 0, 1), END

/* Not F_SETOWN, F_SETSIG and O_ASYNC, which send signals; no leases. Needs fcntl.h. */
#define SANDBOX_FCNTL                                                                                                  \
    RULE(fcntl, 12), LOW(1), IF_IS(F_DUPFD, 8, 0), IF_IS(F_DUPFD_CLOEXEC, 7, 0), IF_IS(F_GETFD, 6, 0),                 \
        IF_IS(F_GET_SEALS, 5, 0), IF_IS(F_SETFD, 4, 0), IF_IS(F_GETFL, 3, 0), IF_IS(F_SETFL, 0, 3), LOW(2),            \
        IF_ANY(O_ASYNC, 1, 0), YES, NO

/* Calls that only an attacker makes. */
#define SANDBOX_TRAPS                                                                                                  \
    TRAP(add_key), TRAP(bpf), TRAP(delete_module), TRAP(finit_module), TRAP(fsmount), TRAP(init_module), TRAP(kcmp),   \
        TRAP(kexec_file_load), TRAP(kexec_load), TRAP(keyctl), TRAP(move_mount), TRAP(open_by_handle_at),              \
        TRAP(open_tree), TRAP(perf_event_open), TRAP(pidfd_getfd), TRAP(pivot_root), TRAP(process_madvise),            \
        TRAP(process_vm_readv), TRAP(process_vm_writev), TRAP(ptrace), TRAP(reboot), TRAP(request_key), TRAP(swapoff), \
        TRAP(swapon), TRAP(umount2), TRAP(userfaultfd)

#endif
