/* SPDX-License-Identifier: MIT */
#include "client/log/log-schema.h"

/* AUTOINCREMENT: the number of a removed exchange is never given to another one. The index has no copy of the texts;
 * the triggers keep it equal to them. more: the texts inside steps, tool_calls and others. */
const char schema_sql[] =
    "CREATE TABLE exchange(id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL, follows TEXT,"
    " conversation TEXT NOT NULL, began_ms INTEGER NOT NULL, took_ms INTEGER, kind TEXT NOT NULL, model TEXT,"
    " session TEXT, status INTEGER NOT NULL, reason TEXT, error TEXT, rounds INTEGER, system TEXT, earlier TEXT,"
    " prompt TEXT, suffix TEXT, media TEXT, steps TEXT, thinking TEXT, answer TEXT, tool_calls TEXT, others TEXT,"
    " options TEXT, usage TEXT, timings TEXT, seed INTEGER, more TEXT, bytes INTEGER NOT NULL);"
    "CREATE UNIQUE INDEX exchange_uuid ON exchange(uuid);"
    "CREATE INDEX exchange_conversation ON exchange(conversation, began_ms, bytes);"
    "CREATE VIRTUAL TABLE words USING fts5(prompt, answer, thinking, system, suffix, more, session, content='exchange',"
    " content_rowid='id', tokenize='unicode61 remove_diacritics 2');"
    "CREATE TRIGGER exchange_added AFTER INSERT ON exchange BEGIN"
    " INSERT INTO words(rowid, prompt, answer, thinking, system, suffix, more, session) VALUES"
    " (new.id, new.prompt, new.answer, new.thinking, new.system, new.suffix, new.more, new.session); END;"
    "CREATE TRIGGER exchange_removed AFTER DELETE ON exchange BEGIN"
    " INSERT INTO words(words, rowid, prompt, answer, thinking, system, suffix, more, session) VALUES"
    " ('delete', old.id, old.prompt, old.answer, old.thinking, old.system, old.suffix, old.more, old.session); END;"
    "PRAGMA application_id=1752130156;"
    "PRAGMA user_version=1;";
