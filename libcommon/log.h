/* SPDX-License-Identifier: MIT */
#pragma once
/* Diagnostics on standard error: with "<N>" prefixes if the journal reads it (JOURNAL_STREAM), in color on a terminal
 * (unless NO_COLOR or TERM=dumb), else plain. One call writes one line with one write(). */
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* @name is prepended to each line ("hobd: …"), except for the journal; @max is the last level that is printed. */
void log_init(const char *name, enum log_level max);
/* Change the last level; from any thread, at any time. */
void log_limit(enum log_level max);
void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_at(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_at(LOG_DEBUG, __VA_ARGS__)
