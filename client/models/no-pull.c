/* SPDX-License-Identifier: MIT */
#include "client/exits.h"
#include "client/models/models.h"
#include "libcommon/log.h"

int models_pull(const struct models_options *o)
{
    log_error("this hob was built without libcurl: fetch the file, then hob models add FILE");
    return EXITS_FAILED;
}
