/* SPDX-License-Identifier: MIT */
#include "client/exit-status.h"
#include "client/models/models.h"
#include "libcommon/log.h"

int models_pull(const struct models_options *o)
{
    log_error("hob was built without libcurl: download the file, then run hob models add FILE");
    return EXIT_FAILED;
}
