# SPDX-License-Identifier: Apache-2.0
"""What ninja is to build: the targets that meson installs, of those that it tells of, by their names there."""

import json
import pathlib
import sys

build = pathlib.Path(sys.argv[1])
for target in json.load(sys.stdin):
    if target['installed']:
        for name in target['filename']:
            print(pathlib.Path(name).relative_to(build))
