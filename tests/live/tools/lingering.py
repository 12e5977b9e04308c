#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lingering.py SOCKET: connects there and sends a fd, the last one of a TCP socket that lingers for an hour, with bytes
that its peer does not take. Says so, and stays."""

import array
import signal
import socket
import struct
import sys


def main():
    daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    daemon.connect(sys.argv[1])
    listener = socket.create_server(('127.0.0.1', 0))
    full = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    full.setblocking(False)
    try:
        while True:
            full.send(bytes(65536))
    except BlockingIOError:
        pass
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
    daemon.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [full.fileno()]))])
    full.close()
    print('sent', flush=True)
    signal.pause()
    peer.close()


if __name__ == '__main__':
    main()
