/* SPDX-License-Identifier: MIT */
#include "client/log/column.h"
#include <string.h>

const struct column columns[COLUMNS] = {
    [COLUMN_UUID] = {"uuid", COLUMN_TEXT},
    [COLUMN_FOLLOWS] = {"follows", COLUMN_TEXT},
    [COLUMN_CONVERSATION] = {"conversation", COLUMN_TEXT},
    [COLUMN_BEGAN_MS] = {"began_ms", COLUMN_NUMBER},
    [COLUMN_TOOK_MS] = {"took_ms", COLUMN_NUMBER},
    [COLUMN_WHICH] = {"kind", COLUMN_TEXT},
    [COLUMN_MODEL] = {"model", COLUMN_TEXT},
    [COLUMN_SESSION] = {"session", COLUMN_TEXT},
    [COLUMN_STATUS] = {"status", COLUMN_NUMBER},
    [COLUMN_REASON] = {"reason", COLUMN_TEXT},
    [COLUMN_ERROR] = {"error", COLUMN_TEXT},
    [COLUMN_ROUNDS] = {"rounds", COLUMN_NUMBER},
    [COLUMN_SYSTEM] = {"system", COLUMN_TEXT},
    [COLUMN_BEFORE] = {"earlier", COLUMN_JSON},
    [COLUMN_PROMPT] = {"prompt", COLUMN_TEXT},
    [COLUMN_SUFFIX] = {"suffix", COLUMN_TEXT},
    [COLUMN_MEDIA] = {"media", COLUMN_JSON},
    [COLUMN_STEPS] = {"steps", COLUMN_JSON},
    [COLUMN_THINKING] = {"thinking", COLUMN_TEXT},
    [COLUMN_ANSWER] = {"answer", COLUMN_TEXT},
    [COLUMN_TOOL_CALLS] = {"tool_calls", COLUMN_JSON},
    [COLUMN_OTHERS] = {"others", COLUMN_JSON},
    [COLUMN_OPTIONS] = {"options", COLUMN_JSON},
    [COLUMN_USAGE] = {"usage", COLUMN_JSON},
    [COLUMN_TIMINGS] = {"timings", COLUMN_JSON},
    [COLUMN_SEED] = {"seed", COLUMN_NUMBER},
};

const char column_names[] = "uuid,follows,conversation,began_ms,took_ms,kind,model,session,status,reason,error,rounds,"
                            "system,earlier,prompt,suffix,media,steps,thinking,answer,tool_calls,others,options,"
                            "usage,timings,seed";

enum column_id column_find(const char *name)
{
    unsigned i = 0;
    while (i < COLUMNS && strcmp(columns[i].name, name) != 0) i++;
    return (enum column_id)i;
}
