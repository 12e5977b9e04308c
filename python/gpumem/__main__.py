# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem run | doctor"""

import sys

USAGE = """\
usage: python -m gpumem run [--native] SCRIPT | -m MODULE [ARGUMENT...]
       python -m gpumem doctor [--json]
       python -m gpumem --version

  run     has torch, cupy and numba.cuda of a program take their memory from gpumemd
  doctor  says what is served here, what is not, and what mends it

`run --help` and `doctor --help` say more.
"""


def main() -> int:
    """The command line."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from . import _run

        return _run.main(arguments[1:])
    if arguments[:1] == ["doctor"]:
        from . import _doctor

        return _doctor.main(arguments[1:])
    if arguments == ["--version"]:
        from ._version import __version__

        print(f"gpumem {__version__}")
        return 0
    if arguments in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    print(USAGE, end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
