#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""odd_daemon.py ROOT SOCKET LIE: a daemon that answers what metrics are made of, and lies. Serves until it is killed.

Lies: none; names: that would end a label; ids: two pools have one; few: figures of fewer pools; no-pools; many:
more rows than there are bytes; pipe, short, unsealed: where rows should be; silent, gone: at the second question;
noise; error: which ends the connection. No lies are older: it does not know the loop's figures; and slow: each
answer takes half a second.
"""

import fcntl
import os
import pathlib
import re
import socket
import struct
import sys
import time

HELLO, STATS, POOLS, CLIENTS, TENANTS, LOOP = 1, 0x20, 0x21, 0x22, 0x24, 0x26
ANSWER, ERROR = 0x8000, 0xffff
UNKNOWN_KIND = 17
F_ADD_SEALS = 1033
ALL_SEALS = 15
N_STATS = N_LOOP = None


def memfd(content, seals=ALL_SEALS):
    fd = os.memfd_create('rows', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def pool(number, name):
    """struct pool_row."""
    return struct.pack('<4I16s64s3Q', number, 1, number, 0, bytes(16), name, 1 << 30, 1 << 30, 2 << 20)


def pools(lie):
    if lie == 'names':
        return [pool(0, b'a"} 1\n# EOF\nx{y="\\'), pool(1, b'\xff' * 64)]
    return [pool(0, b'one'), pool(0 if lie == 'ids' else 1, b'other')]


def stats(lie):
    figures = [2 ** 64 - 1 if lie == 'names' else 5] * N_STATS
    n = 1 if lie == 'few' else 2
    return [struct.pack(f'<2I{N_STATS}Q', 0 if lie == 'ids' else number, 1, *figures) for number in range(n)]


def rows_fd(rows, lie):
    content = b''.join(rows)
    if lie == 'pipe':
        return os.pipe()[0]
    if lie == 'short':
        return memfd(content[:-1])
    return memfd(content, 0 if lie == 'unsealed' else ALL_SEALS)


class Client:
    def __init__(self, connection, lie):
        self.connection, self.lie = connection, lie
        self.is_silent = False

    def send(self, kind, serial, body, fds):
        head = struct.pack('<IHHII', 16 + len(body), kind, len(fds), serial, 0)
        socket.send_fds(self.connection, [head + body], fds)
        for fd in fds:
            os.close(fd)

    def answer(self, kind, serial):
        self.is_silent |= kind == STATS and self.lie == 'silent'
        if self.is_silent:
            return
        if self.lie == 'slow':
            time.sleep(0.5)
        if kind == HELLO:
            body = struct.pack('<IIQQQII', 1, 64, 0, 77, 4096, 2, 120)
            self.send(HELLO | ANSWER, serial, body, [memfd(bytes(4096)), rows_fd(pools('none'), 'none')])
        elif kind == POOLS:
            rows = [] if self.lie == 'no-pools' else pools(self.lie)
            n = 1 << 20 if self.lie == 'many' else len(rows)
            self.send(kind | ANSWER, serial, struct.pack('<II', n, 120), [rows_fd(rows, self.lie)])
        elif kind == STATS and self.lie == 'noise':
            self.connection.send(os.urandom(24))
        elif kind == STATS and self.lie == 'gone':
            self.connection.close()
        elif kind == STATS and self.lie == 'error':
            self.send(ERROR, 0, struct.pack('<II120s', 3, 0, b'no more'), [])
        elif kind == STATS:
            rows = stats(self.lie)
            self.send(kind | ANSWER, serial, struct.pack('<II', len(rows), len(rows[0])), [memfd(b''.join(rows))])
        elif kind == LOOP and self.lie == 'older':
            self.send(ERROR, serial, struct.pack('<II120s', UNKNOWN_KIND, 0, b'an unknown kind'), [])
        elif kind == LOOP:
            figure = 2 ** 64 - 1 if self.lie == 'names' else 5
            self.send(kind | ANSWER, serial, struct.pack('<Q', figure) * N_LOOP, [])
        elif kind == CLIENTS:
            self.send(kind | ANSWER, serial, struct.pack('<4I', 0, 312, 2, 8 + 8 * N_STATS),
                      [memfd(b'x'), memfd(b'x')])

    def serve(self):
        try:
            while frame := self.connection.recv(4096):
                _, kind, _, serial, _ = struct.unpack_from('<IHHII', frame)
                self.answer(kind, serial)
        except OSError:
            pass


def count(root, name, word):
    """The figures of a list."""
    return len(re.findall(rf'^{word}\(', (pathlib.Path(root) / f'proto/{name}.def').read_text(), re.MULTILINE))


def main():
    global N_STATS, N_LOOP
    root, path, lie = sys.argv[1:]
    N_STATS = count(root, 'stats', 'STAT')
    N_LOOP = count(root, 'loop', 'LOOP')
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            Client(listener.accept()[0], lie).serve()


if __name__ == '__main__':
    main()
