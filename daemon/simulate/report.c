/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/report.h"
#include <stdio.h>

const char *const sim_policy_names[SIM_POLICIES] = {"fcfs", "hob"};

/* A figure of a result: its name in the table and in JSON, and its place. */
struct figure {
    const char *words, *key;
    double (*of)(const struct sim_result *r);
    int digits;
};

static const struct stats *times(const struct sim_result *r, int which)
{
    return which == 0 ? &r->queue : which == 1 ? &r->ttft : &r->itl;
}

static double quantile_s(const struct sim_result *r, int which, double share)
{
    return stats_quantile(times(r, which), share) / 1000;
}

static double busy(const struct sim_result *r)
{
    return r->ms > 0 ? r->busy_ms / r->ms : 0;
}

static double hit_rate(const struct sim_result *r)
{
    return r->prompt ? (double)r->hit / (double)r->prompt : 0;
}

static double preemptions(const struct sim_result *r)
{
    double n = 0;
    for (int i = 0; i <= SCHED_QUANTUM; i++) n += (double)r->preemptions[i];
    return n;
}

static double computed(const struct sim_result *r)
{
    return r->prompt ? (double)r->computed / (double)r->prompt : 0;
}

static double steps(const struct sim_result *r)
{
    return (double)r->steps;
}

static double evictions(const struct sim_result *r)
{
    return (double)r->evictions;
}

static double jain(const struct sim_result *r)
{
    return r->jain;
}

static double jain_speed(const struct sim_result *r)
{
    return r->jain_speed;
}

static const struct figure figures[] = {
    {"hit rate of prompt tokens", "hit_rate", hit_rate, 4},
    {"computed part of prompt tokens", "computed", computed, 4},
    {"preemptions", "preemptions", preemptions, 0},
    {"evicted blocks", "evictions", evictions, 0},
    {"Jain's index of users' shares", "jain", jain, 4},
    {"Jain's index of users' speed", "jain_speed", jain_speed, 4},
    {"steps", "steps", steps, 0},
    {"machine busy", "busy", busy, 3},
};

enum { N_FIGURES = sizeof(figures) / sizeof(*figures) };

static const struct {
    const char *words, *key;
} waits[] = {{"until it starts", "queue_ms"}, {"until the first token", "ttft_ms"}, {"between two tokens", "itl_ms"}};

static const struct {
    const char *words;
    double share;
} shares[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};

static double infinite(const struct trace *t)
{
    return t->prompt_tokens ? (double)t->infinite_tokens / (double)t->prompt_tokens : 0;
}

static double over_infinite(const struct trace *t, const struct sim_result *r)
{
    return t->infinite_tokens ? hit_rate(r) / infinite(t) : 1;
}

void report_print(const struct trace *t, const struct sim_config *c, const struct sim_result *results, int n,
                  const enum sim_policy *policies)
{
    printf("%zu requests of %u users, %llu prompt tokens, %llu distinct blocks of %d tokens; a cache of %llu blocks of "
           "%u tokens\n",
           t->n, c->users, (unsigned long long)t->prompt_tokens, (unsigned long long)t->distinct, TRACE_BLOCK,
           (unsigned long long)results[0].room, c->block);
    printf("the trace is slowed down by %.4g; an infinite cache has %.4f of the prompt tokens\n\n%-34s", c->stretch,
           infinite(t), "");
    for (int k = 0; k < n; k++) printf("%14s", sim_policy_names[policies[k]]);
    for (int w = 0; w < 3; w++)
        for (int p = 0; p < 4; p++) {
            printf("\n%-24s %-3s, s   ", p ? "" : waits[w].words, shares[p].words);
            for (int k = 0; k < n; k++) printf("%14.4g", quantile_s(&results[k], w, shares[p].share));
        }
    for (int i = 0; i < N_FIGURES; i++) {
        printf("\n%-34s", figures[i].words);
        for (int k = 0; k < n; k++) printf("%14.*f", figures[i].digits, figures[i].of(&results[k]));
        if (i > 0) continue;
        printf("\n%-34s", "  relative to an infinite cache");
        for (int k = 0; k < n; k++) printf("%14.4f", over_infinite(t, &results[k]));
    }
    putchar('\n');
}

static json_t *json_times(const struct stats *s)
{
    json_t *j = json_object();
    for (int p = 0; p < 4; p++) json_object_set_new(j, shares[p].words, json_real(stats_quantile(s, shares[p].share)));
    json_object_set_new(j, "mean", json_real(stats_mean(s)));
    json_object_set_new(j, "n", json_integer((json_int_t)s->n));
    return j;
}

static json_t *json_result(const struct trace *t, const struct sim_config *c, const struct sim_result *r)
{
    static const char *const why[] = {NULL, "slow_reader", "class", "even_slots", "quantum"};
    json_t *j = json_object(), *reasons = json_object(), *users = json_array();
    for (int w = 0; w < 3; w++) json_object_set_new(j, waits[w].key, json_times(times(r, w)));
    for (int i = 0; i < N_FIGURES; i++) {
        double v = figures[i].of(r);
        json_object_set_new(j, figures[i].key, figures[i].digits ? json_real(v) : json_integer((json_int_t)v));
    }
    json_object_set_new(j, "hit_rate_over_infinite", json_real(over_infinite(t, r)));
    json_object_set_new(j, "ms", json_real(r->ms));
    for (int i = SCHED_YIELD; i <= SCHED_QUANTUM; i++)
        json_object_set_new(reasons, why[i], json_integer((json_int_t)r->preemptions[i]));
    json_object_set_new(j, "preempted_for", reasons);
    for (uint32_t u = 0; u < c->users; u++) json_array_append_new(users, json_times(&r->user_ttft[u]));
    json_object_set_new(j, "users_ttft_ms", users);
    return j;
}

json_t *report_json(const struct trace *t, const struct sim_config *c, const struct sim_result *results, int n,
                    const enum sim_policy *policies)
{
    json_t *j = json_object(), *all = json_object(), *ms = json_array();
    for (int i = 0; i < SCHED_TIME_PLAIN; i++) json_array_append_new(ms, json_real(c->step_ms[i]));
    for (int k = 0; k < n; k++) json_object_set_new(all, sim_policy_names[policies[k]], json_result(t, c, &results[k]));
    json_object_set_new(j, "requests", json_integer((json_int_t)t->n));
    json_object_set_new(j, "users", json_integer(c->users));
    json_object_set_new(j, "prompt_tokens", json_integer((json_int_t)t->prompt_tokens));
    json_object_set_new(j, "distinct_blocks", json_integer((json_int_t)t->distinct));
    json_object_set_new(j, "room_blocks", json_integer((json_int_t)results[0].room));
    json_object_set_new(j, "block_tokens", json_integer(c->block));
    json_object_set_new(j, "infinite_hit_rate", json_real(infinite(t)));
    json_object_set_new(j, "stretch", json_real(c->stretch));
    json_object_set_new(j, "step_ms", ms);
    if (json_object_set_new(j, "policies", all) == 0) return j;
    json_decref(j);
    return NULL;
}
