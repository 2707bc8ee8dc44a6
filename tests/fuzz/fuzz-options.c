/* SPDX-License-Identifier: MIT */
/* hob.conf, or a template of the user (byte 0: which, and the command line): a file that is read gives options within
 * their limits, another one a message. */
#include "client/input.h"
#include "client/options.h"
#include "client/templates/templates.h"
#include "libcommon/error.h"
#include "tests/fuzz/fuzz.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {
    "0# comment\nmodel = a\nsystem = \"be short\"\nstop = x\nstop = y\n",
    "1system = \"\"\"\na=b\r\nc=d\n\"\"\"\ntemp = 0.7\ntop-k = 40\ntop-p = .9\n",
    "2logit-bias = 5=+3\nlogit-bias = the=-inf\nlog = on\nlog-size = 10M\nlog-age = 7d\n",
    "3think = show\nthink-budget = 100\npriority = batch\ntimeout = 1m\n",
    "4timeout = 3\nmodel = e\n",
    "5context = shift\nquiet = yes\nverbose = no\n",
    "8prompt = Say {input} in {language}, {1}.\nparam = language=French\nsystem = {role}\nparam = role\n",
    "9schema = {\"type\": \"object\"}\nprompt = {input}\non-limit = close\n",
    "9choice = yes\nchoice = no\ncompact = yes\nprompt = {{x}} {input}\n",
    "<tool = ./x\ntool = y\ntool-choice = auto\ntool-rounds = 3\nprompt = {input}\n",
    "=regex = [a-z]+\ndescription = words\nprompt = {2} {1}\n",
    NULL,
};

static char *lines[16][8] = {
    {"hob", "x"},
    {"hob", "chat"},
    {"hob", "batch", "-"},
    {"hob", "map", "x", "-"},
    {"hob", "embed", "x"},
    {"hob", "infill", "--prefix-file", "a", "--suffix-file", "b"},
    {"hob", "do", "x"},
    {"hob", "--session", "a", "--temp", "0", "x"},
    {"hob", "--template", "t", "x"},
    {"hob", "--template", "t", "--param", "a=b", "x"},
    {"hob", "--template", "t", "--param", "role=b", "x", "y"},
    {"hob", "--template", "t", "--raw", "x"},
    {"hob", "--template", "t", "--choice", "a", "x"},
    {"hob", "--template", "t", "x", "y", "z"},
    {"hob", "--template", "t", "--system", "{a}", "x"},
    {"hob", "rank", "x", "y"},
};
enum { TEMPLATES = 8, TEMPLATES_END = 15 };

static char path[2][160]; /* of the file, of the template */
static int nothing;

static void make_folder(void)
{
    char dir[64];
    fuzz_quiet();
    fuzz_folder(dir);
    setenv("HOME", dir, 1);
    setenv("XDG_CONFIG_HOME", dir, 1);
    unsetenv("CONFIGURATION_DIRECTORY");
    snprintf(path[0], sizeof(path[0]), "%s/hob", dir);
    mkdir(path[0], 0700);
    snprintf(path[1], sizeof(path[1]), "%s/hob/templates", dir);
    mkdir(path[1], 0700);
    snprintf(path[0], sizeof(path[0]), "%s/hob/hob.conf", dir);
    snprintf(path[1], sizeof(path[1]), "%s/hob/templates/t.conf", dir);
    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(nothing >= 0);
}

static void check(const struct options *o)
{
    const struct option_constraint *c = &o->constraint;
    FUZZ_CHECK(!!c->schema + !!c->grammar + !!c->regex + !!c->n_choices <= 1);
    FUZZ_CHECK(o->stop.n <= PROTO_STOPS_MAX && o->biases.n <= PROTO_BIASES_MAX);
    FUZZ_CHECK(isnan(o->sampling.temperature) || o->sampling.temperature >= 0);
    FUZZ_CHECK(o->max_tokens >= -1 && o->timeout_ms >= -1 && !(o->quiet && o->verbose));
    for (size_t i = 0; i < o->stop.n; i++) FUZZ_CHECK(*o->stop.texts[i]);
}

static int read_all(struct options *o, bool template)
{
    struct input in = {0};
    int r = template_load(o);
    if (r == 0) r = options_complete(o, template ? NULL : path[0]);
    if (r < 0) return r;
    check(o);
    if (!template) return 0;
    r = template_input(o, nothing, &in);
    if (r == 0) FUZZ_CHECK(in.text.data || !in.text.len);
    input_fini(&in);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options o;
    if (!size) return 0;
    if (!nothing) make_folder();
    char **line = lines[(data[0] - '0') & 15];
    bool template = line >= lines[TEMPLATES] && line < lines[TEMPLATES_END];
    int n = 0;
    while (n < 8 && line[n]) n++;
    fuzz_write(path[template], data + 1, size - 1);
    FUZZ_CHECK(options_parse(&o, n, line) == 0);
    int r = read_all(&o, template);
    if (r < 0) FUZZ_CHECK(r != -ENOMEM && strlen(error_text(r)) > 4);
    if (template) template_check(path[1]);
    options_fini(&o);
    return 0;
}
