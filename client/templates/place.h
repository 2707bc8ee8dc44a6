/* SPDX-License-Identifier: MIT */
#pragma once
/* The folders of templates: the user's, the system's, those that come with hob. The first one that has a name wins. */
#include <stddef.h>

enum template_origin { TEMPLATE_USER, TEMPLATE_SYSTEM, TEMPLATE_SHIPPED };

struct template_place {
    char *name, *path; /* owned */
    enum template_origin origin;
};

struct template_list {
    struct template_place *places; /* [n], by name; owned */
    size_t n;
};

/* All templates. 0 or -ENOMEM; sets the error message. Call template_list_free in any case. */
int template_list(struct template_list *l);
void template_list_free(struct template_list *l);

/* The template @name in @l. NULL: there is none; sets the error message for -EINVAL, which has the nearest name. */
const struct template_place *template_find(const struct template_list *l, const char *name);

/* The path of the user's file of the template @name, which need not exist; *out is owned by the caller. 0; -EINVAL: not
 * a name; -ENOENT: no home directory; -ENOMEM; sets the error message. */
int template_user_path(const char *name, char **out);
