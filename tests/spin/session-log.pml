/* SPDX-License-Identifier: MIT */
/*
 * The log of a session (session/save.c, session-log.c, load.c): turns are appended, or the whole log is written as a new
 * file and renamed; writes, fsync, ftruncate and rename fail; and the machine loses its power at any moment, after which
 * what was not synced is there, is not, or is partly. The client sends each turn again, with its UUID, until `done`.
 *
 * Checked: after each load, and at the end, the session has the turns 1, 2, … in this order, each once, and all of those
 * for which `done` was sent. As in request.pml, MUTANT breaks one rule each.
 */
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define TURNS  3
#define INODES 3
#define NOBODY INODES

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

/* A record is as it should be, ends too early, or has other bytes than were written. */
mtype = { GOOD, TORN, DAMAGED };

typedef Inode {
    byte n;              /* records */
    byte turn[4];
    bool synced[4];
    bool lost[4];        /* an fsync failed: no later one writes it */
    bool tail;           /* part of a record follows */
};

Inode f[INODES];
byte name = NOBODY, on_disk = NOBODY; /* the inode that the log's name stands for, now and after a loss of power */

byte have, turns[4];     /* the session in memory */
byte in_log;             /* how many of its turns the log has */
bool rewrite, saved, entry_synced;

byte done, crashes, faults, failed;
byte j, k;
bool power;

/* A call fails, or not. */
inline call(bad)
{
    if
    :: faults < FAULTS -> faults++; bad = true
    :: true -> bad = false
    fi
}

inline drop(x)
{
    for (j : 0 .. 3) {
        f[x].turn[j] = 0;
        f[x].synced[j] = false;
        f[x].lost[j] = false
    }
    f[x].n = 0;
    f[x].tail = false;
    j = 0
}

inline truncate_log()
{
    for (j : in_log .. 3) {
        f[name].turn[j] = 0;
        f[name].synced[j] = false;
        f[name].lost[j] = false
    }
    j = 0;
    f[name].n = in_log;
    f[name].tail = false
}

inline sync(x)
{
    for (j : 0 .. f[x].n - 1) {
        f[x].synced[j] = !f[x].lost[j]
    }
    j = 0
}

/* An fsync that fails: pages that were not written are clean now. */
inline sync_fails(x)
{
    for (j : 0 .. f[x].n - 1) {
        f[x].lost[j] = !f[x].synced[j]
    }
    j = 0
}

/* append_to */
inline append()
{
    atomic {
        call(bad);
        if
        :: bad ->
            f[name].tail = true;
            call(bad);
            if
            :: bad -> rewrite = true
            :: else -> f[name].tail = false
            fi;
            failed = 1
        :: else ->
            for (j : in_log .. have - 1) {
                f[name].turn[j] = turns[j];
                f[name].synced[j] = false;
                f[name].lost[j] = f[name].tail /* behind a part of a record nothing is found */
            }
            f[name].n = have;
            j = 0
        fi
    };
    if
    :: !failed && !BROKEN(11) ->
        atomic {
            call(bad);
            if
            :: bad ->
                sync_fails(name);
                failed = 1;
                if
                :: BROKEN(13) -> in_log = have
                :: else ->
                    rewrite = true;
                    call(bad);
                    if
                    :: !bad -> truncate_log()
                    :: else -> skip
                    fi
                fi
            :: else -> sync(name)
            fi
        }
    :: else -> skip
    fi;
    if
    :: !failed && !entry_synced ->
        atomic {
            call(bad);
            if
            :: bad -> failed = 1; rewrite = true
            :: else -> on_disk = name; entry_synced = true
            fi
        }
    :: else -> skip
    fi;
    atomic {
        if
        :: !failed -> in_log = have; saved = true
        :: else -> skip
        fi
    }
}

/* session_log_write: a new file, synced, then renamed over the log, then the directory is synced. */
inline write_all()
{
    atomic {
        tmp = (name != 0 && on_disk != 0 -> 0 : (name != 1 && on_disk != 1 -> 1 : 2));
        drop(tmp);
        call(bad);
        if
        :: bad -> failed = 1
        :: else ->
            for (j : 0 .. have - 1) {
                f[tmp].turn[j] = turns[j]
            }
            f[tmp].n = have;
            j = 0
        fi
    };
    if
    :: !failed && !BROKEN(12) ->
        atomic {
            call(bad);
            if
            :: bad -> failed = 1
            :: else -> sync(tmp)
            fi
        }
    :: else -> skip
    fi;
    atomic {
        if
        :: !failed ->
            call(bad);
            if
            :: bad -> failed = 1
            :: else ->
                name = tmp;
                in_log = have;
                rewrite = false;
                saved = true;
                entry_synced = false
            fi
        :: else -> skip
        fi
    };
    atomic {
        if
        :: !failed && !BROKEN(16) ->
            call(bad);
            if
            :: bad -> failed = 1; rewrite = true; saved = false
            :: else -> on_disk = name; entry_synced = true
            fi
        :: else -> skip
        fi;
        tmp = 0
    }
}

inline session_save()
{
    failed = 0;
    if
    :: name == NOBODY || rewrite -> write_all()
    :: name != NOBODY && !rewrite -> append()
    :: name != NOBODY && !rewrite && in_log > 0 -> /* it is too long; if a new one cannot be written, a record may be */
        write_all();
        if
        :: failed && !rewrite -> failed = 0; append()
        :: else -> skip
        fi
    fi;
    atomic {
        if
        :: failed -> saved = false
        :: else -> skip
        fi
    }
}

/* What the disk has after a loss of power: the name is that of either inode, and each record that was not synced was
 * written, in part, or not at all; one after a record that was not written is damaged, as its checksum shows. */
inline power_cut()
{
    if
    :: name = on_disk
    :: on_disk = name
    fi;
    good = 0;
    ends = GOOD;
    if
    :: name != NOBODY ->
        for (j : 0 .. f[name].n - 1) {
            if
            :: f[name].synced[j] -> skip
            :: !f[name].synced[j] && !f[name].lost[j] -> f[name].synced[j] = true
            :: !f[name].synced[j] && ends == GOOD && j == f[name].n - 1 -> ends = TORN; good = j
            :: !f[name].synced[j] && ends == GOOD -> ends = DAMAGED; good = j
            :: !f[name].synced[j] && ends != GOOD -> skip
            fi
        }
        j = 0;
        if
        :: ends == GOOD ->
            good = f[name].n;
            if
            :: f[name].tail -> ends = TORN
            :: true -> f[name].tail = false
            fi
        :: else -> skip
        fi
    :: else -> skip
    fi;
    rewrite = false;
    saved = true;
    entry_synced = true;
    failed = 0
}

/* replay: turns up to the last valid record; with mutant 17, without looking at checksums. */
inline replay()
{
    have = 0;
    for (j : 0 .. 3) {
        turns[j] = 0
    }
    j = 0;
    if
    :: name != NOBODY ->
        for (j : 0 .. (BROKEN(17) -> f[name].n : good) - 1) {
            turns[j] = (f[name].synced[j] -> f[name].turn[j] : 0)
        }
        have = (BROKEN(17) -> f[name].n : good);
        j = 0
    :: else -> skip
    fi;
    in_log = have
}

/* mend */
inline repair()
{
    if
    :: ends == TORN && BROKEN(15) -> f[name].tail = true
    :: ends == TORN && !BROKEN(15) ->
        call(bad);
        if
        :: bad -> rewrite = true
        :: else -> truncate_log()
        fi
    :: ends == DAMAGED -> rewrite = true
    :: else -> skip
    fi;
    ends = GOOD;
    good = 0
}

inline check()
{
    assert(have >= done);
    for (j : 0 .. 3) {
        assert(j >= have || turns[j] == j + 1)
    }
    j = 0
}

active proctype Power()
{
end_power:
    do
    :: atomic { !power && crashes < CRASHES && done < TURNS -> crashes++; power = true }
    od
}

active proctype Hobd()
{
    bool bad;
    byte tmp, good;
    mtype ends = GOOD;
again:
    {
        do
        :: done < TURNS ->
            atomic {
                if
                :: have > done && !BROKEN(14) -> skip /* turn_replay: the outcome with this UUID */
                :: else -> turns[have] = done + 1; have++; saved = false
                fi
            };
            if
            :: !saved -> session_save()
            :: else -> failed = 0
            fi;
            atomic {
                if
                :: !failed -> done++; check()
                :: else -> skip
                fi
            }
        :: else -> break
        od
    } unless {
        atomic {
            power -> power = false;
            power_cut();
            replay();
            check();
            repair();
            goto again
        }
    };
    atomic { check(); assert(have == TURNS) }
}
