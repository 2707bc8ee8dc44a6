#!/bin/sh
# SPDX-License-Identifier: MIT
# Print the FILEs as C arrays: page.css becomes page_page_css and page_page_css_len.
# usage: embed.sh FILE…
set -eu
echo '#include "client/http/page-files.h"'
for file; do
    name=page_$(basename "$file" | tr .- __)
    echo "const unsigned char ${name}[] = {"
    od -An -v -tu1 "$file" | sed 's/\([0-9]\{1,3\}\)/\1,/g'
    echo "};"
    echo "const size_t ${name}_len = sizeof($name);"
done
