/* SPDX-License-Identifier: MIT */
#pragma once
/* Diagnostics on standard error: "<N>" prefixes when the journal reads it (JOURNAL_STREAM), colour on a terminal
 * (unless NO_COLOR or TERM=dumb), plain else. One call, one line, one write. */
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* @name goes in front of each line ("hobd: …") where the journal does not read; @max is the last level printed. */
void log_init(const char *name, enum log_level max);
/* Another last level; any thread, any time. */
void log_limit(enum log_level max);
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_at(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_at(LOG_DEBUG, __VA_ARGS__)
