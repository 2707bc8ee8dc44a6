/* SPDX-License-Identifier: MIT */
#include "client/http/http-options.h"
#include "client/http/http-listen.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <getopt.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "hob-http [OPTION]…      serve the APIs of OpenAI and Anthropic over HTTP\n"
                           "hob-http key add NAME   make a key, print it, and add its hash to the keys file\n"
                           "\n"
                           "  -l, --listen ADDR:PORT      listen there; repeatable (default: 127.0.0.1:8080\n"
                           "                              and [::1]:8080)\n"
                           "  -s, --socket PATH           socket of a hobd; repeatable; its file name is the\n"
                           "                              model's name (default: the sockets of all models)\n"
                           "  -k, --keys FILE             keys of clients (default: hob/keys in the\n"
                           "                              configuration directory, if it exists)\n"
                           "      --host NAME             without keys: another valid name of this host in\n"
                           "                              requests; repeatable\n"
                           "      --max-body SIZE         maximum size of a request (default: 32M)\n"
                           "      --max-connections N     maximum number of connections (default: 1024)\n"
                           "      --request-timeout TIME  time limit for a request to arrive (default: 60s)\n"
                           "      --confine YES|NO        enter the sandbox (default: yes)\n"
                           "  -v, --verbose               also log each request\n"
                           "  -h, --help                  print this help\n"
                           "      --version               print the version\n"
                           "\n"
                           "See hob-http(1).\n";

int http_options_help(void)
{
    return output_print(help, strlen(help));
}

static int add(const char ***list, size_t *n, const char *text)
{
    const char **more = reallocarray(*list, *n + 1, sizeof(*more));
    if (!more) return error_origin(-ENOMEM);
    *list = more;
    more[(*n)++] = text;
    return 0;
}

static int read_words(struct http_options *o, int n, char **words)
{
    if (n == 0 || o->command != HTTP_SERVE) return 0;
    if (n == 2 && strcmp(words[0], "key") == 0 && strcmp(words[1], "add") == 0)
        return error_say(-EINVAL, "key add needs a NAME (see hob-http --help)");
    if (n == 3 && strcmp(words[0], "key") == 0 && strcmp(words[1], "add") == 0) {
        o->command = HTTP_KEY_ADD;
        o->key_name = words[2];
        return 0;
    }
    return error_say(-EINVAL, "unexpected argument '%s' (see hob-http --help)", words[0]);
}

static int add_listen(struct http_options *o, const char *text)
{
    struct addrinfo *a = NULL;
    int r = listen_address(text, &a);
    if (r < 0) return r;
    freeaddrinfo(a);
    return add(&o->listen, &o->n_listen, text);
}

static int read_option(struct http_options *o, int c)
{
    switch (c) {
    case 'l':
        return add_listen(o, optarg);
    case 's':
        return add(&o->sockets, &o->n_sockets, optarg);
    case 'k':
        o->keys = optarg;
        return 0;
    case 'H':
        return add(&o->hosts, &o->n_hosts, optarg);
    case 'b':
        return parse_size(optarg, &o->max_body);
    case 'c':
        return parse_u64(optarg, 1, 100000, &o->max_connections);
    case 't':
        return parse_time(optarg, &o->request_timeout_usec);
    case 'C':
        o->no_sandbox = strcmp(optarg, "no") == 0;
        return o->no_sandbox || strcmp(optarg, "yes") == 0
                   ? 0
                   : error_say(-EINVAL, "--confine: '%s' is not yes or no", optarg);
    case 'v':
        o->verbose = true;
        return 0;
    case 'h':
        o->command = HTTP_HELP;
        return 0;
    default:
        o->command = HTTP_VERSION;
        return 0;
    }
}

int http_options_parse(struct http_options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"listen", 1, NULL, 'l'},
        {"socket", 1, NULL, 's'},
        {"keys", 1, NULL, 'k'},
        {"host", 1, NULL, 'H'},
        {"max-body", 1, NULL, 'b'},
        {"max-connections", 1, NULL, 'c'},
        {"request-timeout", 1, NULL, 't'},
        {"confine", 1, NULL, 'C'},
        {"verbose", 0, NULL, 'v'},
        {"help", 0, NULL, 'h'},
        {"version", 0, NULL, 'V'},
        {0},
    };
    int c, r = 0;
    *o = (struct http_options){.max_body = 32 << 20, .max_connections = 1024, .request_timeout_usec = 60000000};
    opterr = 0;
    while (r == 0 && (c = getopt_long(argc, argv, ":l:s:k:vh", longs, NULL)) != -1) {
        if (c == ':') return error_say(-EINVAL, "'%s' needs a value (see hob-http --help)", argv[optind - 1]);
        if (c == '?')
            return error_say(-EINVAL, "unknown option '%s' (see hob-http --help)", argv[optind - (optind > 1)]);
        r = read_option(o, c);
    }
    return r == 0 ? read_words(o, argc - optind, argv + optind) : r;
}

void http_options_fini(struct http_options *o)
{
    free(o->listen);
    free(o->sockets);
    free(o->hosts);
    *o = (struct http_options){0};
}
