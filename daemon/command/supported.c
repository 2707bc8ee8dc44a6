/* SPDX-License-Identifier: MIT */
/* hobd inspect --supported: prints the tables of supported models that README.md contains. */
#include "daemon/command/command.h"
#include "daemon/model/hparams.h"
#include "kernels/kernels.h"
#include "libcommon/error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

int print_supported(void)
{
    const struct arch *a;
    const char *scaling;
    puts("| architecture | models | features |\n|---|---|---|");
    for (uint32_t i = 0; (a = arch_nth(i)); i++) printf("| `%s` | %s | %s |\n", a->name, a->models, a->marks);
    fputs("\n| RoPE scaling | weight types | KV types |\n|---|---|---|\n| ", stdout);
    for (uint32_t i = 0; (scaling = rope_scaling_nth(i)); i++) printf("%s%s", i ? ", " : "", scaling);
    fputs(" | ", stdout);
    for (int t = 0; t < KERN_TYPES; t++) printf("%s%s", t ? ", " : "", kern_type_name((enum kern_type)t));
    fputs(" | ", stdout);
    for (int t = 0; t < KERN_KV_TYPES; t++) printf("%s%s", t ? ", " : "", kern_kv_name((enum kern_kv)t));
    puts(" |");
    if (fflush(stdout) || ferror(stdout)) return error_say(-EIO, "standard output: %s", strerror(errno));
    return 0;
}
