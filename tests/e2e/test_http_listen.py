# SPDX-License-Identifier: MIT
"""Where hob-http listens, and its command line."""
import os
import socket
import subprocess

import pytest
from conftest import Home
from httpgate import HOB_HTTP, Gateway
from httpgate import run_http as run


def test_two_addresses(shared):
    g = Gateway(shared, ipv6=True)
    assert g.get("/health").status == 200
    with socket.create_connection(("::1", g.port_v6), timeout=60) as s:
        s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_other_machines_need_keys(tmp_path, address):
    r = run(Home(tmp_path), "--listen", address)
    assert r.returncode == 1 and "needs a keys file" in r.stderr, r.stderr


@pytest.mark.parametrize("address", ["8080", "localhost:8080", "::1:8080", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "[::1]", ":8080"])
def test_not_an_address(tmp_path, address):
    r = run(Home(tmp_path), "--listen", address)
    assert r.returncode == 2 and "is not ADDRESS:PORT" in r.stderr, r.stderr


def test_an_address_in_use(shared, tmp_path):
    g = Gateway(shared)
    r = run(Home(tmp_path), "--listen", f"127.0.0.1:{g.port}")
    assert r.returncode == 1 and "in use" in r.stderr, r.stderr


def test_a_socket_of_the_service_manager(shared):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        p = subprocess.Popen(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", HOB_HTTP, "--socket", shared.socket, "--listen", "0.0.0.0:1"],
                             env=shared.env, stderr=subprocess.PIPE, preexec_fn=lambda: os.dup2(s.fileno(), 3), pass_fds=(3,))
    try:
        assert p.stderr.readline() == f"hob-http: listening on http://127.0.0.1:{port}\n".encode()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as c:
            c.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert c.recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        p.terminate()
        assert p.wait(60) == 0
