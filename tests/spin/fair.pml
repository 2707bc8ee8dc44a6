/* SPDX-License-Identifier: MIT */
/*
 * The scheduler's rules for slots and blocks (sched/decide.c, sched/preempt.c) with two users, in units of one step: user 0 always has
 * another request waiting, each of which takes one block and takes one or two steps or is endless; user 1 comes and goes, with requests
 * that take one block or all. Accounts are kept as their difference; the model has no decay, classes or slow readers.
 *
 * Checked: no user with a waiting request is without service for more than BOUND steps. As in request.pml, MUTANT breaks
 * one rule each.
 */
#define SLOTS    2
#define BLOCKS   2
#define QUANTUM  3
#define PATIENCE 4 /* units */
#define BOUND    16
#define LEAD     24 /* larger differences are taken for this */

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

typedef Slot {
    bool used, user;
    byte left;  /* steps; 0: endless */
    byte spent; /* in this slot, at most QUANTUM */
    byte blocks;
};

Slot s[SLOTS];
byte blocks = BLOCKS;
short lead;            /* account of user 0 less that of user 1 */
bool waits;            /* user 1 has a request that waits */
byte need;             /* its blocks; 0: user 1 has no request */
byte steps;            /* that it takes; 0: endless */
byte clock;            /* units since it began to wait, at most PATIENCE */
byte without0, without1; /* steps that the user waited without service */
byte i;
bool blocked;

#define FREE(k)    (!s[k].used)
#define ANY_FREE   (FREE(0) || FREE(1))
#define RUNS(u)    ((s[0].used && s[0].user == u) || (s[1].used && s[1].user == u))
#define OVER(k, u) (s[k].used && s[k].user == u && s[k].spent >= QUANTUM && !BROKEN(22))

inline start(u, takes, steps)
{
    i = (FREE(0) -> 0 : 1);
    s[i].used = true;
    s[i].user = u;
    s[i].left = steps;
    s[i].spent = 0;
    s[i].blocks = takes;
    blocks = blocks - takes;
    i = 0
}

inline leave(k)
{
    blocks = blocks + s[k].blocks;
    s[k].used = false;
    s[k].user = 0;
    s[k].left = 0;
    s[k].spent = 0;
    s[k].blocks = 0
}

/* make_room for user 1: of user 0, whose account is larger by a quantum, requests that had their quantum. */
inline make_room_1()
{
    if
    :: lead >= QUANTUM && (OVER(0, 0) || OVER(1, 0)) ->
        if
        :: OVER(0, 0) && (blocks + s[0].blocks >= need) -> leave(0)
        :: else ->
            if
            :: OVER(1, 0) && (blocks + s[1].blocks >= need) -> leave(1)
            :: OVER(0, 0) && OVER(1, 0) && !(blocks + s[1].blocks >= need) -> leave(0); leave(1)
            :: else -> skip
            fi
        fi
    :: else -> skip
    fi
}

inline decide_1()
{
    if
    :: waits ->
        if
        :: !ANY_FREE || blocks < need -> make_room_1()
        :: else -> skip
        fi;
        if
        :: ANY_FREE && blocks >= need -> start(1, need, steps); waits = false
        :: else -> blocked = blocks < need && clock >= PATIENCE && !BROKEN(21)
        fi
    :: else -> skip
    fi
}

inline decide_0()
{
    do
    :: ANY_FREE && blocks && !blocked ->
        if
        :: start(0, 1, 0)
        :: start(0, 1, 1)
        :: start(0, 1, 2)
        fi
    :: (!ANY_FREE || !blocks) && !blocked && !RUNS(0) && -lead >= QUANTUM && (OVER(0, 1) || OVER(1, 1)) ->
        if
        :: OVER(0, 1) -> leave(0)
        :: else -> leave(1)
        fi;
        waits = true; /* it keeps its place, but the blocks may be lost */
        clock = 0
    :: else -> break
    od
}

/* A short request ends after its step. */
inline step(k)
{
    if
    :: s[k].used ->
        lead = lead + (s[k].user == 0 -> 1 : -1);
        s[k].spent = (s[k].spent < QUANTUM -> s[k].spent + 1 : QUANTUM);
        if
        :: s[k].left > 1 -> s[k].left--
        :: s[k].left == 1 ->
            if
            :: s[k].user == 1 -> need = 0
            :: else -> skip
            fi;
            leave(k)
        :: else -> skip
        fi;
        clock = (clock < PATIENCE -> clock + 1 : PATIENCE)
    :: else -> skip
    fi
}

inline count(n, starves)
{
    n = (starves -> n + 1 : 0);
    assert(n <= BOUND)
}

active proctype Scheduler()
{
    bool served0, served1;
    do
    :: atomic {
            if
            :: !need -> /* user 1 begins to wait: its account is raised to the floor */
                if
                :: true -> need = 1; steps = 2
                :: true -> need = 1; steps = 0
                :: true -> need = BLOCKS; steps = 2
                :: true -> need = BLOCKS; steps = 0
                fi;
                waits = true;
                clock = 0;
                if
                :: lead > 0 && !BROKEN(23) -> lead = 0
                :: else -> skip
                fi
            :: true -> skip
            fi;
            if
            :: lead >= 0 -> decide_1(); decide_0()
            :: else -> decide_0(); decide_1()
            fi;
            blocked = false;
            served0 = RUNS(0);
            served1 = RUNS(1);
            step(0);
            step(1);
            lead = (lead > LEAD -> LEAD : (lead < -LEAD -> -LEAD : lead));
            count(without0, !served0);
            count(without1, waits && !served1);
            served0 = false;
            served1 = false
        }
    od
}
