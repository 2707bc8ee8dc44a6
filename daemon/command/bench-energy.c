/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench.h"
#include "libcommon/cleanup.h"
#include <inttypes.h>

#define POWERCAP "/sys/class/powercap/intel-rapl:%u/%s" /* AMD's packages have this name too */

static bool read_number(unsigned zone, const char *name, uint64_t *out)
{
    char path[64];
    snprintf(path, sizeof(path), POWERCAP, zone, name);
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    return f && fscanf(f, "%" SCNu64, out) == 1;
}

void bench_meter_read(struct bench_meter *m)
{
    m->zones = 0;
    while (m->zones < BENCH_ZONES && read_number(m->zones, "energy_uj", &m->uj[m->zones])) m->zones++;
}

double bench_meter_since(const struct bench_meter *m)
{
    struct bench_meter now;
    bench_meter_read(&now);
    if (!m->zones || now.zones != m->zones) return -1;
    uint64_t sum = 0, range = 0;
    for (unsigned i = 0; i < m->zones; i++) {
        sum += now.uj[i] - m->uj[i]; /* wraps; the range corrects it */
        if (now.uj[i] < m->uj[i] && read_number(i, "max_energy_range_uj", &range)) sum += range;
    }
    return (double)sum * 1e-6;
}
