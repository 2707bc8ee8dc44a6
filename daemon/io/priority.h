/* SPDX-License-Identifier: MIT */
#pragma once
/* Priorities of the event loop's sources: a lower number comes first. Input from peers comes last, so that it cannot
 * delay a signal, the watchdog or an answer. New connections have the same priority as input, because they cost as
 * much. */
enum {
    PRIORITY_SIGNAL = -40,
    PRIORITY_TIMER = -30,
    PRIORITY_ENGINE = -20, /* outgoing events of answers */
    PRIORITY_POST = -10,
    PRIORITY_INPUT = 0,
};
