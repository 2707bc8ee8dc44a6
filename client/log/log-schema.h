/* SPDX-License-Identifier: MIT */
#pragma once
/* The tables of the log: a row of exchange for each exchange, and words, the index of its texts. */

#define SCHEMA_APPLICATION 0x686f626c /* PRAGMA application_id: "hobl" */

/* The statements that make them. */
extern const char schema_sql[];
