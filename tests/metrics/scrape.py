#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Prometheus and less polite clients do to gpumemd-exporter.

    scrape.py get PORT [FORMAT]       prints the text; fails if the status is not 200
    scrape.py status PORT METHOD PATH prints the status
    scrape.py crowd PORT N            N scrapes at once: prints how many got metrics, and from how many asks
    scrape.py agree PORT              the same figures in both formats, no series twice
    scrape.py ADVERSARY PORT          see below; prints how it was ended

FORMAT: openmetrics or text.
"""

import concurrent.futures
import http.client
import multiprocessing
import re
import select
import socket
import sys
import time

PATIENCE_S = 60
# What Prometheus has for a scrape, where nothing else is said.
SCRAPE_S = 10
# Those that the exporter takes at a time.
N_CONNECTIONS = 512
ACCEPT = {'openmetrics': 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5',
          'text': 'text/plain'}
# The sample: what the name means is said in a line that begins with it, too.
UP = '\ngpumemd_up 1\n'
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? ([0-9.]+)$')


def ask(port, method='GET', path='/metrics', form='text'):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=PATIENCE_S)
    connection.request(method, path, headers={'Accept': ACCEPT[form]})
    answer = connection.getresponse()
    text = answer.read().decode('ascii')
    connection.close()
    return answer, text


def read_samples(text):
    samples = {}
    for line in text.splitlines():
        if line.startswith('#'):
            continue
        match = SAMPLE.match(line)
        assert match, f'no sample: {line}'
        assert (match[1], match[2]) not in samples, f'twice: {line}'
        samples[match[1], match[2]] = match[3]
    return samples


def get(port, form='text'):
    answer, text = ask(port, form=form)
    assert answer.status == 200, answer.status
    wanted = 'application/openmetrics-text; version=1.0.0' if form == 'openmetrics' else 'text/plain'
    assert answer.headers['Content-Type'].startswith(wanted), answer.headers['Content-Type']
    return text


def agree(port):
    """Both are of one answer if they come within a second: until they do, again."""
    for _ in range(100):
        one, other = (read_samples(get(port, form)) for form in ACCEPT)
        if one['gpumemd_exporter_asks_total', None] == other['gpumemd_exporter_asks_total', None]:
            break
    else:
        raise AssertionError('scrapes of one second share no answer')
    assert one == other, set(one.items()) ^ set(other.items())
    return len(one)


def crowd(port, n):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        texts = list(pool.map(lambda _: get(port), range(n)))
    asks = {read_samples(text)['gpumemd_exporter_asks_total', None] for text in texts}
    return f'{sum(UP in text for text in texts)} of {len(asks)}'


def reach(port):
    return socket.create_connection(('127.0.0.1', port), timeout=PATIENCE_S)


def read_end(client):
    """What came before the end, however the end came."""
    said = b''
    try:
        while part := client.recv(65536):
            said += part
    except ConnectionError:
        pass
    client.close()
    return said


def slow(port):
    """More clients than are taken, each with half a request; a scrape gets its turn all the same."""
    clients = [reach(port) for _ in range(N_CONNECTIONS + 10)]
    for client in clients:
        client.sendall(b'GET /metrics HT')
    assert UP in get(port)
    return f'{sum(read_end(client) == b"" for client in clients[:N_CONNECTIONS])} cut'


def idle(port, n, there):
    """So many connections that say nothing; each that ends is at once another."""
    clients, polled, n_ended = {}, select.epoll(), 0

    def connect():
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(('127.0.0.1', port))
        polled.register(client, select.EPOLLRDHUP)
        clients[client.fileno()] = client

    for _ in range(n):
        connect()
    while True:
        for number, _ in polled.poll():
            clients.pop(number).close()
            connect()
            n_ended += 1
            # As many as there is room for have had their turn.
            if n_ended == N_CONNECTIONS:
                there.send(n_ended)


def restless(port):
    """Half as many again as are taken, who come again: five scrapes have their turn in the time that one has."""
    here, there = multiprocessing.Pipe()
    crowd = multiprocessing.Process(target=idle, args=(port, N_CONNECTIONS * 3 // 2, there), daemon=True)
    crowd.start()
    try:
        assert here.poll(PATIENCE_S), 'no connection was cut'
        begin = time.monotonic()
        for _ in range(5):
            assert UP in get(port)
        assert time.monotonic() < begin + SCRAPE_S, 'it took too long'
        assert crowd.is_alive()
    finally:
        crowd.kill()
        crowd.join()
    return 'served'


def dripping(port):
    """A byte at a time, for ever: each one has come before the next is sent."""
    client = reach(port)
    client.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\n')
    client.settimeout(0.05)
    while True:
        try:
            client.sendall(b'X')
            if client.recv(1) == b'':
                return 'cut'
        except TimeoutError:
            continue
        except ConnectionError:
            return 'cut'


def endless_headers(port):
    client = reach(port)
    try:
        client.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\n')
        for _ in range(100000):
            client.sendall(b'X-More: ' + b'x' * 1000 + b'\r\n')
    except ConnectionError:
        return 'cut'
    return 'all was taken'


def endless_body(port):
    client = reach(port)
    try:
        client.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')
        while True:
            client.sendall(b'3e8\r\n' + b'x' * 1000 + b'\r\n')
    except ConnectionError:
        return 'cut'


def deaf(port):
    """Clients that ask and never read, and go away after another has been served."""
    clients = []
    for _ in range(60):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(('127.0.0.1', port))
        client.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
        clients.append(client)
    assert UP in get(port)
    for client in clients:
        client.close()
    return 'served'


def hoard(port):
    """How many bytes are taken of a client that sends on while its request waits for a silent daemon."""
    while True:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        client.connect(('127.0.0.1', port))
        client.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
        # What can be read is an answer of the last second.
        if not select.select([client], [], [], 0.1)[0]:
            break
        client.close()
    client.setblocking(False)
    n_taken = 0
    try:
        while select.select([], [client], [], 0.3)[1]:
            n_taken += client.send(b'x' * 1000)
    except ConnectionError:
        pass
    client.close()
    return n_taken


def noise(port):
    for part in (b'\0' * 4000, b'\r\n' * 4000, b'GET\r\n\r\n', b'GET /metrics HTTP/9.9\r\n\r\n',
                 b'GET /metrics HTTP/1.1\r\n\r\n', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
                 b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', b'GET ' + b'/' * 100000,
                 b'GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
                 b'GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n'):
        client = reach(port)
        try:
            client.sendall(part)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        read_end(client)
    assert UP in get(port)
    return 'served'


def main():
    deed, port, *rest = sys.argv[1:]
    port = int(port)
    if deed == 'get':
        sys.stdout.write(get(port, *rest))
    elif deed == 'status':
        print(ask(port, *rest)[0].status)
    elif deed == 'crowd':
        print(crowd(port, int(rest[0])))
    else:
        print({'agree': agree, 'slow': slow, 'restless': restless, 'dripping': dripping, 'deaf': deaf,
               'noise': noise, 'hoard': hoard, 'endless-headers': endless_headers,
               'endless-body': endless_body}[deed](port))


if __name__ == '__main__':
    main()
