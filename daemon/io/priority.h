/* SPDX-License-Identifier: MIT */
#pragma once
/* Priorities of the event loop's sources: a lower number comes first. Input from peers comes last, so that no amount
 * of it delays a signal, the watchdog or an answer. New connections take turns with input: they cost as much. */
enum {
    PRIORITY_SIGNAL = -40,
    PRIORITY_TIMER = -30,
    PRIORITY_ENGINE = -20, /* events of answers, on their way out */
    PRIORITY_POST = -10,
    PRIORITY_INPUT = 0,
};
