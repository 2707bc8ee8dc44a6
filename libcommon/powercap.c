/* SPDX-License-Identifier: MIT */
#include "libcommon/powercap.h"
#include "libcommon/cleanup.h"
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define FOLDER  "/sys/class/powercap/intel-rapl:"
#define NUMBERS (2 * POWERCAP_ZONES_MAX) /* of zones; some may be missing */

static int open_file(const char *root, unsigned zone, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s" FOLDER "%u/%s", root, zone, name);
    return n < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

static bool read_text(int fd, char out[static 64])
{
    ssize_t n = fd < 0 ? -1 : pread(fd, out, 63, 0);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool read_number(int fd, uint64_t *out)
{
    char text[64], *end;
    if (!read_text(fd, text)) return false;
    *out = strtoull(text, &end, 10);
    return end != text && *text != '-';
}

/* A zone with another name has parts of packages, or the packages and more ("psys"). */
static bool is_package(int name)
{
    char text[64];
    return read_text(name, text) && strncmp(text, "package", 7) == 0;
}

/* Add package @zone. False: it cannot be read. */
static bool add(struct powercap *p, const char *root, unsigned zone)
{
    uint64_t range = 0, now;
    _cleanup_(closep) int most = open_file(root, zone, "max_energy_range_uj");
    _cleanup_(closep) int fd = open_file(root, zone, "energy_uj");
    if (!read_number(most, &range) || !read_number(fd, &now) || p->n == POWERCAP_ZONES_MAX) return false;
    p->zone[p->n].fd = fd;
    p->zone[p->n].last = now;
    p->zone[p->n].range = range;
    p->n++;
    fd = -1;
    return true;
}

void powercap_open(struct powercap *p, const char *root)
{
    *p = (struct powercap){0};
    for (unsigned zone = 0; zone < NUMBERS; zone++) {
        _cleanup_(closep) int name = open_file(root, zone, "name");
        if (!is_package(name) || add(p, root, zone)) continue;
        powercap_close(p);
        return;
    }
}

void powercap_close(struct powercap *p)
{
    for (unsigned i = 0; i < p->n; i++) close(p->zone[i].fd);
    *p = (struct powercap){0};
}

double powercap_read(struct powercap *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        uint64_t now, last = p->zone[i].last;
        if (!read_number(p->zone[i].fd, &now)) {
            powercap_close(p);
            break;
        }
        p->joules += (double)(now >= last ? now - last : now + p->zone[i].range - last) * 1e-6;
        p->zone[i].last = now;
    }
    return p->n ? p->joules : -1;
}
