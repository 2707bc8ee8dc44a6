/* SPDX-License-Identifier: MIT */
#include "daemon/request/config.h"
#include "daemon/session/session.h"

void engine_config_init(struct engine_config *c)
{
    *c = (struct engine_config){
        .parallel = 16,
        .kv_type = KERN_KV_F16,
        .kv_host_bytes = KV_HOST_DEFAULT,
        .state_share = 33,
        .queue = 256,
        .queue_timeout_usec = 600ull * 1000 * 1000,
        .cache_bytes = 4ull << 30,
        .media.cache_bytes = 256ull << 20,
        .vector_bytes = 64ull << 20,
        .sessions.bytes = 1ull << 30,
        .sessions.count = SESSIONS_MAX,
        .disk_reserve = 256ull << 20,
    };
}
