#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""odd_lists.py ROOT SOCKET BYTE: a daemon whose every list is right by its form, and full of this byte.

Serves until it is killed.
"""

import fcntl
import os
import pathlib
import re
import socket
import struct
import sys

HELLO, STATS, POOLS, CLIENTS, BLOCKS, TENANTS, EVENTS, LOOP, LIMITS = 1, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x50
ANSWER, ERROR = 0x8000, 0xffff
UNKNOWN_KIND = 17
F_ADD_SEALS, ALL_SEALS = 1033, 15
N_ROWS, POOL_BYTES, LIMIT_BYTES = 64, 120, 96


def memfd(content):
    fd = os.memfd_create('rows', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    fcntl.fcntl(fd, F_ADD_SEALS, ALL_SEALS)
    return fd


def row_bytes(definition):
    """The size of a row, of a list such as proto/blocks.def."""
    sizes = {'ROW_U32(': 4, 'ROW_U64(': 8, 'STAT(': 8, 'LOOP(': 8}
    n = 8 if 'STAT(' in definition else 0
    for word, n_text in re.findall(r'^(\w+\()\w+, (\w+)', definition, re.MULTILINE):
        n += sizes[word] if word in sizes else int(n_text)
    return n


class Daemon:
    def __init__(self, root, byte):
        def size(name):
            return row_bytes((pathlib.Path(root) / 'proto' / f'{name}.def').read_text())
        self.byte = byte
        self.loop = bytes([byte]) * row_bytes((pathlib.Path(root) / 'proto' / 'loop.def').read_text())
        self.sizes = {STATS: size('stats'), POOLS: POOL_BYTES, CLIENTS: size('clients'),
                      BLOCKS: size('blocks'), TENANTS: size('tenants'), EVENTS: size('events'), LIMITS: LIMIT_BYTES}

    def rows(self, n_bytes):
        return memfd(bytes([self.byte]) * (N_ROWS * n_bytes))

    def answer(self, kind, serial):
        """The body of an answer, and its fds."""
        if kind == HELLO:
            return (struct.pack('<IIQQQII', 1, 64, 0, 77, 4096, N_ROWS, POOL_BYTES),
                    [memfd(bytes(4096)), self.rows(POOL_BYTES)])
        n = self.sizes[kind]
        body = struct.pack('<II', N_ROWS, n)
        if kind in (STATS, POOLS):
            return body, [self.rows(n)]
        if kind == LIMITS:
            return body + struct.pack('<Q', 9), [self.rows(n)]
        if kind == EVENTS:
            return body + struct.pack('<QQQ', 9, 9, 0), [self.rows(n)]
        return body + struct.pack('<II', N_ROWS, self.sizes[STATS]), [self.rows(n), self.rows(self.sizes[STATS])]

    def answer_loop(self, connection, serial):
        """One of them is older, and does not know the question."""
        body, kind = self.loop, LOOP | ANSWER
        if self.byte == 1:
            body, kind = struct.pack('<II120s', UNKNOWN_KIND, 0, b'an unknown kind'), ERROR
        connection.send(struct.pack('<IHHII', 16 + len(body), kind, 0, serial, 0) + body)

    def serve(self, connection):
        while frame := connection.recv(4096):
            _, kind, _, serial, _ = struct.unpack_from('<IHHII', frame)
            if kind == LOOP:
                self.answer_loop(connection, serial)
            if kind != HELLO and kind not in self.sizes:
                continue
            body, fds = self.answer(kind, serial)
            head = struct.pack('<IHHII', 16 + len(body), kind | ANSWER, len(fds), serial, 0)
            socket.send_fds(connection, [head + body], fds)
            for fd in fds:
                os.close(fd)


def main():
    root, path, byte = sys.argv[1:]
    daemon = Daemon(root, int(byte, 0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            with listener.accept()[0] as connection:
                try:
                    daemon.serve(connection)
                except OSError:
                    pass


if __name__ == '__main__':
    main()
