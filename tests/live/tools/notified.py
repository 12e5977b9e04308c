#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""notified.py SOCKET FILE: what systemd hears of a service, a message a line, until it is killed.

In a message line breaks are "; ". The socket is there once the file is.
"""

import pathlib
import socket
import sys


def main():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(sys.argv[1])
        with pathlib.Path(sys.argv[2]).open('w', buffering=1) as file:
            while True:
                print('; '.join(heard.recv(4096).decode().split('\n')), file=file)


if __name__ == '__main__':
    main()
