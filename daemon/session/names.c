/* SPDX-License-Identifier: MIT */
#include "daemon/session/names.h"
#include "libcommon/hex.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

void session_file_name(char out[SESSION_FILE_NAME], const uint8_t hash[16], const char *ext)
{
    hex_write(out, hash, 16);
    snprintf(out + SESSION_HEX - 1, SESSION_FILE_NAME - SESSION_HEX + 1, "%s", ext);
}

bool session_file_name_read(const char *name, const char *ext, uint8_t hash[16])
{
    return hex_read(hash, name, 16) && strcmp(name + SESSION_HEX - 1, ext) == 0;
}

void session_bad_name(char out[SESSION_FILE_NAME], const uint8_t hash[16], int i)
{
    char ext[] = "-0.bad";
    assert(i >= 0 && i < SESSION_BADS);
    ext[1] = (char)('0' + i);
    session_file_name(out, hash, i ? ext : ".bad");
}

bool session_bad_name_read(const char *name, uint8_t hash[16])
{
    char bad[SESSION_FILE_NAME];
    if (!hex_read(hash, name, 16)) return false;
    for (int i = 0; i < SESSION_BADS; i++) {
        session_bad_name(bad, hash, i);
        if (strcmp(name, bad) == 0) return true;
    }
    return false;
}

void session_base_name(char out[SESSION_FILE_NAME], const uint8_t hash[16], uint32_t i)
{
    const char ext[] = {'.', 'b', (char)('0' + i), '\0'};
    assert(i < SESSION_BASES);
    session_file_name(out, hash, ext);
}

bool session_base_name_read(const char *name, uint8_t hash[16], uint32_t *i)
{
    char base[SESSION_FILE_NAME];
    if (!hex_read(hash, name, 16)) return false;
    for (*i = 0; *i < SESSION_BASES; ++*i) {
        session_base_name(base, hash, *i);
        if (strcmp(name, base) == 0) return true;
    }
    return false;
}
