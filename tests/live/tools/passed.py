#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""passed.py FOLDER COMMAND...: runs a command that has sockets, as systemd passes them or never would.

Fd 10: the clients' socket in the folder; 11: the admin one beside it; 12: one that is not beside it;
13: a stream socket; 14: one that does not listen; 15: one without a path; 16: one of another family.
"""

import os
import socket
import sys


def opened(family, kind, address, backlog=8):
    made = socket.socket(family, kind)
    made.bind(address)
    if backlog:
        made.listen(backlog)
    return made


def main():
    path = sys.argv[1] + '/gpumemd.sock'
    unix, packets = socket.AF_UNIX, socket.SOCK_SEQPACKET
    sockets = [
        opened(unix, packets, path),
        opened(unix, packets, path + '.admin'),
        opened(unix, packets, path + '.other'),
        opened(unix, socket.SOCK_STREAM, path + '.stream'),
        opened(unix, packets, path + '.silent', backlog=0),
        opened(unix, packets, b'\0' + path.encode()),
        opened(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', 0)),
    ]
    for number, made in enumerate(sockets):
        os.dup2(made.fileno(), 10 + number, inheritable=True)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == '__main__':
    main()
