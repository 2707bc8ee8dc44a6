/* SPDX-License-Identifier: MIT */
/*
 * Renaming sessions (session/save.c: move_log; open.c: finish_renames): the log is written under the new name, with the
 * hash of the old name and the last checksum of the old log in its head; then the old log is removed. Each change of the
 * directory is on disk after it was synced, and perhaps before; the machine may lose its power at any moment.
 *
 * Checked: after a start each conversation has one name, has all turns for which `done` was sent, and none is missing. As
 * in request.pml, MUTANT breaks one rule each.
 */
#define NAMES 2
#define FILES 8
#define NONE  FILES
#ifndef STEPS
#define STEPS 4 /* turns, renames, new logs and new conversations */
#endif
#ifndef CRASHES
#define CRASHES 2
#endif

c_decl {
    \#include <stdlib.h>
    static int mutant;
    __attribute__((constructor)) static void choose(void)
    {
        const char *s = getenv("MUTANT");
        mutant = s ? atoi(s) : 0;
    }
};
#define BROKEN(n) c_expr { mutant == n }

typedef File {
    byte talk;     /* the conversation, 1 or 2 */
    byte turns;
    byte replaced; /* the name that it replaces; NAMES: none */
    byte sum;      /* the checksum that the replaced log ended with */
};

/* The last checksum of a log is a number that no other file, and no other length, has. */
#define SUM(x) (8 * (x) + f[x].turns)

File f[FILES];
byte entry[NAMES] = NONE, disk[NAMES] = NONE; /* what a name stands for, now and on disk */
byte acked[3];                                /* turns of a conversation */
byte made = 1, files = 1, steps, faults, crashes;
bool crash;
byte j, k;

inline sync_dir()
{
    disk[0] = entry[0];
    disk[1] = entry[1]
}

inline new_file(x, from, was, again)
{
    f[files].talk = f[from].talk;
    f[files].turns = f[from].turns;
    f[files].replaced = was;
    f[files].sum = (again -> f[from].sum : SUM(from));
    x = files;
    files++
}

/* From name @a to the other, @b. */
inline rename_session(a, b)
{
    if
    :: BROKEN(34) -> atomic { file = entry[a]; entry[a] = NONE; sync_dir() }
    :: else -> atomic { file = entry[a] }
    fi;
    atomic {
        if
        :: BROKEN(31) -> old = NAMES
        :: else -> old = a
        fi;
        new_file(file, file, old, false);
        old = 0
    };
    atomic { entry[b] = file };
    atomic { sync_dir() };
    atomic { entry[a] = NONE };
    atomic {
        if
        :: faults < 1 -> faults++ /* the sync fails: a warning */
        :: true -> sync_dir()
        fi;
        file = 0
    }
}

/* The log is written anew, as after a failed write, or when it is too long. The removal of the old name may still be
 * lost. */
inline rewrite(a)
{
    atomic {
        file = entry[a];
        if
        :: BROKEN(33) -> old = NAMES
        :: else -> old = f[file].replaced
        fi;
        new_file(file, file, old, true);
        old = 0
    };
    atomic { entry[a] = file };
    atomic { sync_dir(); file = 0 }
}

inline finish_renames()
{
    for (k : 0 .. NAMES - 1) {
        if
        :: entry[k] != NONE && f[entry[k]].replaced < NAMES && entry[f[entry[k]].replaced] != NONE ->
            j = f[entry[k]].replaced;
            if
            :: j != k && (f[entry[k]].sum == SUM(entry[j]) || BROKEN(32)) -> entry[j] = NONE
            :: else -> skip
            fi;
            j = 0
        :: else -> skip
        fi
    }
    k = 0;
    sync_dir()
}

inline check()
{
    for (k : 1 .. made) {
        assert((entry[0] != NONE && f[entry[0]].talk == k) + (entry[1] != NONE && f[entry[1]].talk == k) == 1);
        assert(!(entry[0] != NONE && f[entry[0]].talk == k) || f[entry[0]].turns >= acked[k]);
        assert(!(entry[1] != NONE && f[entry[1]].talk == k) || f[entry[1]].turns >= acked[k])
    }
    k = 0
}

active proctype Power()
{
end_power:
    do
    :: atomic { !crash && crashes < CRASHES && steps < STEPS -> crashes++; crash = true }
    od
}

active proctype Hobd()
{
    byte file, old;
    atomic {
        f[0].talk = 1;
        f[0].turns = 1;
        f[0].replaced = NAMES;
        acked[1] = 1;
        entry[0] = 0;
        sync_dir()
    }
again:
    {
        do
        :: steps < STEPS && files < FILES - 1 ->
            steps++;
            if
            :: entry[0] != NONE && entry[1] == NONE -> rename_session(0, 1)
            :: entry[1] != NONE && entry[0] == NONE -> rename_session(1, 0)
            :: entry[0] != NONE -> atomic { f[entry[0]].turns++; acked[f[entry[0]].talk] = f[entry[0]].turns }
            :: entry[1] != NONE -> atomic { f[entry[1]].turns++; acked[f[entry[1]].talk] = f[entry[1]].turns }
            :: entry[0] != NONE -> rewrite(0)
            :: entry[1] != NONE -> rewrite(1)
            :: made == 1 && entry[0] == NONE ->
                atomic {
                    made = 2;
                    f[files].talk = 2;
                    f[files].turns = 1;
                    f[files].replaced = NAMES;
                    entry[0] = files;
                    files++;
                    acked[2] = 1;
                    sync_dir()
                }
            fi
        :: else -> break
        od
    } unless {
        atomic {
            crash -> crash = false;
            if
            :: entry[0] = disk[0]
            :: skip
            fi;
            if
            :: entry[1] = disk[1]
            :: skip
            fi;
            sync_dir();
            finish_renames();
            check();
            file = 0;
            old = 0;
            goto again
        }
    };
    atomic { check() }
}
