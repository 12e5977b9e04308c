# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem run | doctor | kernels | torch-extension"""

import difflib
import signal
import sys

from . import _answer

USAGE = """\
usage: python -m gpumem run [--native] SCRIPT | -m MODULE [ARGUMENT...]
       python -m gpumem doctor [--json]
       python -m gpumem kernels [--json | clear]
       python -m gpumem torch-extension [--where]
       python -m gpumem --version

  run              has torch, cupy, numba.cuda, rmm, cuda.core and warp of a
                   program take their memory from gpumemd
  doctor           says what is served here, what is not, and what mends it
  kernels          lists the compiled kernels that are kept for this user's
                   processes, and clears them
  torch-extension  builds what torch's plain interface for allocators lacks

With --help each says more.
"""

COMMANDS = ["run", "doctor", "kernels", "torch-extension", "--version", "--help"]


def main() -> int:
    """The command line."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from . import _run

        return _run.main(arguments[1:])
    # A reader that ends early, such as head, ends these commands in silence, as it does others.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if arguments[:1] == ["doctor"]:
        from . import _doctor

        return _answer.of(_doctor.main, arguments[1:])
    if arguments[:1] == ["kernels"]:
        from .kernels import _command

        return _answer.of(_command.main, arguments[1:])
    if arguments[:1] == ["torch-extension"]:
        from . import _torch_extension

        return _answer.of(_torch_extension.main, arguments[1:])
    if arguments == ["--version"]:
        from ._version import __version__

        return _answer.write(f"gpumem {__version__}\n")
    if arguments in (["-h"], ["--help"]):
        return _answer.write(USAGE)
    if arguments and arguments[0] not in COMMANDS:
        nearest = difflib.get_close_matches(arguments[0], COMMANDS, 1)
        hint = f'did you mean "{nearest[0]}"?' if nearest else "see python -m gpumem --help"
        print(f'gpumem: unknown command "{arguments[0]}"; {hint}', file=sys.stderr)
    else:
        print(USAGE, end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
