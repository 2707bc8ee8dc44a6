/* SPDX-License-Identifier: MIT */
#include "client/http/http-metrics.h"
#include <inttypes.h>

/* Upper limits of the buckets, in seconds. */
static const double limits[METRICS_BUCKETS] = {.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60};

void metrics_response(struct http_metrics *m, int status)
{
    if (status >= 0 && status < METRICS_STATUSES) m->responses[status]++;
}

void metrics_seconds(struct histogram *h, double seconds)
{
    unsigned i = 0;
    while (i < METRICS_BUCKETS && seconds > limits[i]) i++;
    h->counts[i]++;
    h->sum += seconds;
}

static int put_histogram(struct buf *out, const char *name, const char *help, const struct histogram *h)
{
    uint64_t sum = 0;
    int r = buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (unsigned i = 0; r == 0 && i <= METRICS_BUCKETS; i++) {
        sum += h->counts[i];
        if (i < METRICS_BUCKETS)
            r = buf_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, limits[i], sum);
        else
            r = buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    }
    return r == 0 ? buf_printf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, h->sum, name, sum) : r;
}

static int put_value(struct buf *out, const char *name, const char *type, const char *help, uint64_t v)
{
    return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, v);
}

int metrics_put(struct buf *out, const struct http_metrics *m, const struct metrics_now *now)
{
    int r = buf_puts(out, "# HELP hob_http_responses_total Responses by status.\n"
                          "# TYPE hob_http_responses_total counter\n");
    for (int i = 0; r == 0 && i < METRICS_STATUSES; i++)
        if (m->responses[i])
            r = buf_printf(out, "hob_http_responses_total{status=\"%d\"} %" PRIu64 "\n", i, m->responses[i]);
    if (r == 0) r = put_value(out, "hob_http_connections", "gauge", "Open connections.", now->connections);
    if (r == 0) r = put_value(out, "hob_http_requests", "gauge", "Requests in progress.", now->requests);
    if (r == 0) r = put_value(out, "hob_http_queued", "gauge", "Requests in the queue of a daemon.", now->queued);
    if (r == 0)
        r = put_value(out, "hob_http_disconnects_total", "counter", "Requests whose client closed the connection.",
                      m->disconnects);
    if (r == 0) r = put_value(out, "hob_http_prompt_tokens_total", "counter", "Prompt tokens.", m->tokens_prompt);
    if (r == 0)
        r = put_value(out, "hob_http_cached_tokens_total", "counter", "Prompt tokens found in the cache.",
                      m->tokens_cached);
    if (r == 0)
        r = buf_printf(out,
                       "# HELP hob_http_cache_hit_ratio Cached part of the prompt tokens.\n"
                       "# TYPE hob_http_cache_hit_ratio gauge\nhob_http_cache_hit_ratio %.6f\n",
                       m->tokens_prompt ? (double)m->tokens_cached / (double)m->tokens_prompt : 0.0);
    if (r == 0)
        r = put_value(out, "hob_http_completion_tokens_total", "counter", "Tokens of answers.", m->tokens_completion);
    if (r == 0)
        r = put_value(out, "hob_http_drafted_tokens_total", "counter", "Proposed tokens that were computed.",
                      m->tokens_drafted);
    if (r == 0)
        r = put_value(out, "hob_http_accepted_tokens_total", "counter", "Proposed tokens that answers have.",
                      m->tokens_accepted);
    if (r == 0)
        r = put_histogram(out, "hob_http_first_token_seconds", "Time from the request to the first text.",
                          &m->first_token);
    return r == 0 ? put_histogram(out, "hob_http_next_token_seconds", "Time between two texts of an answer.",
                                  &m->next_token)
                  : r;
}
