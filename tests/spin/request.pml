/* SPDX-License-Identifier: MIT */
/*
 * The life of requests: submitted, prepared, queued, admitted, preempted, cancelled, abandoned, late, saved, ended, with
 * the daemon stopping at any moment. tests/e2e/test_spin.py checks it.
 *
 * The processes are those of hobd: the main thread with its clients (io/service.c, engine/api.c), the engine's thread
 * (engine/engine.c, request/start.c, admit.c, step.c, finish.c, request.c) and the job pool (jobs/pool.c, returns.c). An
 * inline is named after the function that it follows. What hobd does with the mailbox's lock held is atomic here, and so
 * is each part of the engine's turn, as no other thread looks at the engine's state meanwhile. The scheduler decides
 * anything that its rules allow (fair.pml has the rules); a job ends in any order and takes any time.
 *
 * Checked: no step computes a sequence whose request was cancelled before the turn; each accepted request has one last
 * event, unless the daemon stops; slots, blocks and the place in the queue are given back once, and all of them; blocks
 * are not given back while a job writes to them; a session serves one request at a time; and each run ends.
 *
 * MUTANT of the environment (see test_spin.py) breaks one rule each; every mutant must violate a property.
 */
#ifndef N
#define N 2 /* requests */
#endif
#define SLOTS  1
#define BLOCKS 2 /* a running sequence has one */
#define TOKENS 2 /* of an answer */

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

mtype = { NONE, INBOX, NEW, PREPARING, ACTIVE, SAVING, ENDED };
mtype = { NO_SEQ, WAITING, FETCHING, RUNNING, SEQ_SAVING, SEQ_ENDED };
mtype = { IDLE, QUEUED, WORKING, FINISHED };

typedef Request {
    mtype state = NONE;
    mtype seq = NO_SEQ;
    mtype job = IDLE;   /* of the request, or the fetch of its sequence */
    bool fetch;         /* @job is the fetch */
    bool cancel_wanted, cancel;
    bool late;          /* its time is over */
    bool detach, turn;  /* it continues without its connection; it is a turn of the session */
    bool session;       /* the session is busy for it */
    bool block, slot;
    bool admitted;      /* once */
    bool fresh;         /* it has computed nothing in its slot */
    bool no_fetch;
    byte tokens;
    bool kept;          /* the turn is in the session */
    bool place;         /* counted in the queue's load */
    bool ended;         /* its last event was sent */
    bool dropped;       /* the daemon ended before that */
};

Request r[N];
bool kick, control, quit, stopped, silent;
byte slots = SLOTS, blocks = BLOCKS, load;
byte owner = N; /* of the session; N: it is idle */
byte i;         /* of the engine's thread alone */

/* --- ends --- */

inline free_slot(x)
{
    if
    :: r[x].seq == RUNNING || r[x].seq == FETCHING ->
        assert(r[x].slot);
        slots++;
        assert(slots <= SLOTS);
        r[x].slot = false
    :: else -> skip
    fi
}

/* Give back the block and the session (request.c: release). */
inline release(x)
{
    if
    :: r[x].block ->
        assert(!(r[x].fetch && r[x].job == WORKING)); /* the job writes to it */
        r[x].block = false;
        blocks++;
        assert(blocks <= BLOCKS)
    :: else -> skip
    fi;
    if
    :: r[x].session ->
        assert(owner == x);
        assert(r[x].fetch || r[x].job != WORKING); /* the job reads or writes it */
        owner = N;
        r[x].session = false
    :: else -> skip
    fi
}

inline push_last(x)
{
    assert(!r[x].ended && !r[x].dropped);
    assert(r[x].state != SAVING || r[x].job == IDLE || silent); /* the turn is on disk before its last event */
    if
    :: silent -> r[x].dropped = true
    :: else -> r[x].ended = true
    fi;
    assert(r[x].place);
    r[x].place = false;
    load--;
    if
    :: !BROKEN(4) -> kick = true
    :: else -> skip
    fi
}

inline request_end_in_job(x)
{
    free_slot(x);
    r[x].seq = SEQ_ENDED;
    push_last(x);
    r[x].state = ENDED;
    r[x].cancel = false; /* what nobody looks at any more: fewer states */
    r[x].cancel_wanted = false;
    r[x].late = false;
    r[x].no_fetch = false;
    r[x].fresh = false;
    r[x].admitted = false;
    r[x].kept = false;
    r[x].tokens = 0
}

inline request_recall(x, done)
{
    done = true;
    if
    :: r[x].job == IDLE -> skip
    :: r[x].job == QUEUED ->
        r[x].job = IDLE;
        r[x].fetch = false
    :: else -> done = BROKEN(6)
    fi
}

inline save(x)
{
    free_slot(x);
    r[x].seq = SEQ_SAVING;
    r[x].state = SAVING;
    r[x].job = QUEUED
}

/* finish.c: end. @keep: the session keeps the turn, or the reason of its failure. */
inline end(x, keep)
{
    request_recall(x, recalled);
    if
    :: !recalled -> request_end_in_job(x)
    :: else ->
        if
        :: r[x].session && keep ->
            if
            :: r[x].block -> /* reuse_end */
                r[x].block = false;
                blocks++
            :: else -> skip
            fi;
            assert(!r[x].kept);
            r[x].kept = true;
            save(x)
        :: else ->
            release(x);
            request_end_in_job(x)
        fi
    fi
}

/* --- the main thread and its clients --- */

active [N] proctype Client()
{
    byte x = _pid;
    atomic {
        /* engine_submit. Symmetric requests begin in order. */
        (x == 0 || r[x - 1].state != NONE || quit);
        if
        :: !quit ->
            r[x].state = INBOX;
            r[x].place = true;
            load++;
            if
            :: true -> skip
            :: r[x].turn = true
            :: r[x].turn = true; r[x].detach = true
            fi
        :: quit -> goto over
        fi
    }
    atomic {
        if
        :: !r[x].ended && !r[x].dropped ->
            if
            :: r[x].cancel_wanted = true; control = true; kick = true /* engine_cancel; engine_abandon, unless detached */
            :: r[x].late = true; kick = true
            :: true -> skip
            fi
        :: else -> skip
        fi
    }
    atomic { (r[x].ended || stopped) -> skip }; /* service.c: deliver */
over:
    skip
}

/* The daemon is stopped at any moment, or never. */
active proctype Stop()
{
    if
    :: quit = true
    :: true -> skip
    fi
}

/* --- the job pool --- */

active [N] proctype Worker()
{
    byte x = _pid - N - 1;
end_idle:
    do
    :: atomic { r[x].job == QUEUED -> r[x].job = WORKING };
        atomic { /* job_done: the returned job wakes the engine's thread */
            r[x].job = FINISHED
        }
    :: atomic { stopped -> break }
    od
}

/* --- the engine's thread --- */

inline release_block(x)
{
    if
    :: BROKEN(7) -> skip
    :: else ->
        r[x].block = false;
        blocks++
    fi
}

inline answer_preempt(x)
{
    release_block(x);
    if
    :: BROKEN(5) -> skip
    :: else -> free_slot(x)
    fi;
    r[x].seq = WAITING
}

/* admit.c: run_ready. Its recurrent state could not be read: it waits again, and does not read the disk. */
inline run_ready(x)
{
    if
    :: !r[x].no_fetch ->
        r[x].no_fetch = true;
        answer_preempt(x)
    :: true -> r[x].seq = RUNNING
    fi
}

inline back(x)
{
    r[x].job = IDLE;
    if
    :: r[x].fetch -> /* fetched */
        r[x].fetch = false;
        if
        :: r[x].seq == SEQ_ENDED -> release(x) /* request_returned */
        :: else -> run_ready(x)
        fi
    :: else ->
        if
        :: r[x].state == ENDED -> release(x) /* request_returned */
        :: r[x].state == PREPARING -> /* enqueue_request */
            if
            :: r[x].late = true /* an error, or the turn was made before: the sweep of this turn ends it */
            :: true -> skip
            fi;
            r[x].state = ACTIVE;
            r[x].seq = WAITING
        :: r[x].state == SAVING -> /* saved */
            release(x);
            request_end_in_job(x)
        fi
    fi
}

inline jobs_deliver()
{
    for (i : 0 .. N - 1) {
        if
        :: r[i].job == FINISHED -> back(i)
        :: else -> skip
        fi
    }
}

/* The same when all requests have ended. */
inline jobs_returned()
{
    for (i : 0 .. N - 1) {
        if
        :: r[i].job == FINISHED ->
            r[i].job = IDLE;
            r[i].fetch = false;
            release(i)
        :: else -> skip
        fi
    }
    i = 0
}

inline requests_start_new()
{
    for (i : 0 .. N - 1) {
        if
        :: r[i].state == NEW && !r[i].cancel ->
            if
            :: r[i].turn && owner == N -> owner = i; r[i].session = true; r[i].state = PREPARING; r[i].job = QUEUED
            :: r[i].turn && owner != N ->
                if
                :: BROKEN(8) -> r[i].session = true; owner = i; r[i].state = PREPARING; r[i].job = QUEUED
                :: else -> /* it waits for the session, or fails */
                    if
                    :: true -> skip
                    :: r[i].late = true
                    fi
                fi
            :: !r[i].turn -> r[i].state = PREPARING; r[i].job = QUEUED
            fi
        :: else -> skip
        fi
    }
}

/* start.c: comes_back. Its turn, or the reason of its failure, is kept when the job is back. */
#define COMES_BACK(x) (r[x].seq == FETCHING && (r[x].tokens || r[x].detach))
#define LIVE(x) (r[x].state == NEW || r[x].state == PREPARING || r[x].state == ACTIVE)

inline requests_sweep()
{
    for (i : 0 .. N - 1) {
        if
        :: (LIVE(i) || (r[i].state == SAVING && BROKEN(2))) && !COMES_BACK(i) && (r[i].cancel || r[i].late) &&
            !(BROKEN(1) && r[i].seq == RUNNING && r[i].fresh) ->
            end(i, r[i].state == ACTIVE && (r[i].tokens || (r[i].detach && r[i].admitted && !r[i].cancel)))
        :: else -> skip
        fi
    }
}

inline start(x)
{
    slots--;
    blocks--;
    r[x].slot = true;
    r[x].block = true;
    r[x].admitted = true;
    r[x].fresh = true;
    if
    :: !r[x].no_fetch -> r[x].seq = FETCHING; r[x].fetch = true; r[x].job = QUEUED
    :: true -> r[x].seq = RUNNING
    fi
}

#define ANY(what) (r[0].what || r[1].what || r[N - 1].what)

/* sched_decide: no slot stays free while a sequence waits, and only one that has progressed in its slot is preempted,
 * once in a decision. */
inline admit_waiting()
{
    moved = false;
    do
    :: ANY(seq == WAITING) && slots && blocks ->
        if
        :: r[0].seq == WAITING -> i = 0
        :: r[1].seq == WAITING -> i = 1
        :: r[N - 1].seq == WAITING -> i = N - 1
        fi;
        start(i)
    :: ANY(seq == WAITING) && !slots && !moved ->
        moved = true;
        for (i : 0 .. N - 1) {
            if
            :: r[i].seq == RUNNING && (!r[i].fresh || BROKEN(3)) && !slots ->
                if
                :: answer_preempt(i)
                :: true -> skip
                fi
            :: else -> skip
            fi
        }
    :: !ANY(seq == WAITING) || (!slots && moved) || (slots && !blocks) -> break
    od
}

inline step_run()
{
    for (i : 0 .. N - 1) {
        if
        :: r[i].seq == RUNNING ->
            assert(!r[i].cancel);
            assert(r[i].slot && r[i].block && r[i].state == ACTIVE);
            r[i].fresh = false;
            r[i].tokens++;
            if
            :: r[i].tokens == TOKENS -> end(i, true) /* answer_done */
            :: else -> skip
            fi
        :: else -> skip
        fi
    }
}

inline take_in()
{
    for (i : 0 .. N - 1) {
        if
        :: r[i].state == INBOX -> r[i].state = NEW; r[i].cancel = r[i].cancel_wanted
        :: else ->
            if
            :: control -> r[i].cancel = r[i].cancel_wanted
            :: else -> skip
            fi
        fi
    }
    control = false;
    kick = false
}

/* engine.c: request_drop for each, and what the jobs return. */
inline end_all()
{
    silent = true;
    for (i : 0 .. N - 1) {
        if
        :: r[i].state != NONE && r[i].job != IDLE -> request_recall(i, recalled)
        :: else -> skip
        fi;
        if
        :: r[i].job == IDLE -> release(i)
        :: else -> skip
        fi;
        if
        :: r[i].state != NONE && r[i].state != ENDED -> request_end_in_job(i)
        :: else -> skip
        fi
    }
}

active proctype Engine()
{
    bool recalled, moved;
end_idle:
    do
    :: atomic {
            !quit && (kick || ANY(state == INBOX) || ANY(job == FINISHED) || ANY(seq == RUNNING)) ->
            take_in();
            jobs_deliver();
            requests_start_new();
            requests_sweep();
            i = 0;
            recalled = false
        };
        atomic {
            admit_waiting();
            step_run();
            i = 0;
            recalled = false;
            moved = false
        }
    :: atomic { quit -> break }
    od;
    atomic { take_in(); end_all(); i = 0; recalled = false };
    do
    :: atomic { ANY(job == FINISHED) -> jobs_returned() }
    :: atomic { !ANY(job == FINISHED) && !ANY(job == QUEUED) && !ANY(job == WORKING) -> break }
    od;
    atomic { stopped = true }
}

/* When nothing can happen any more, everything has ended and was given back. */
active proctype Watch()
{
    byte x;
    atomic {
        timeout ->
        for (x : 0 .. N - 1) {
            if
            :: r[x].state != NONE -> assert(r[x].ended || r[x].dropped); assert(r[x].state == ENDED)
            :: else -> skip
            fi;
            assert(!r[x].dropped || quit);
            assert(!r[x].session && !r[x].block && !r[x].place)
        }
        assert(slots == SLOTS && blocks == BLOCKS && load == 0 && owner == N)
    }
}
