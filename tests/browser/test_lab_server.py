"""`make lab` as a user starts it: on this machine only, behind a token, and gone after Ctrl-C."""

import contextlib
import fcntl
import http.client
import os
import shutil
import socket
import sys
import termios
import threading
import time

import psutil
import pytest

from companion.publish import environment
from tests.browser import lab

MAKE_LAB = ("make", "--no-print-directory", "lab", f"PYTHON={sys.executable}")


def fetch(server, path, token):
    """Return status and body of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=lab.ANSWER_SECONDS)
    connection.request("GET", f"/{path}" + (f"?token={token}" if token else ""))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def own_addresses():
    """Return the addresses of this machine other than loopback."""
    found = (address.address for of_card in psutil.net_if_addrs().values() for address in of_card)
    return [
        address for address in found if address.count(".") == 3 and not address.startswith("127.")
    ]


def listening(server):
    """Return the addresses at which the server and what it has started listen."""
    found, own = set(), psutil.Process(server.process.pid)
    for process in (own, *own.children(recursive=True)):
        # it has ended in the meantime, as a browser's launcher does
        with contextlib.suppress(psutil.NoSuchProcess):
            connections = process.net_connections("inet")
            found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    return found


def test_it_is_open_to_this_machine_alone_and_asks_for_its_token(tmp_path):
    with lab.serve(tmp_path) as server:
        status, page = fetch(server, "lab", server.token)
        assert status == 200 and "<title>JupyterLab" in page
        assert fetch(server, "api/contents", server.token)[0] == 200
        for token in ("", "0" * len(server.token)):
            assert fetch(server, "api/contents", token)[0] == 403
            assert fetch(server, "lab", token)[0] == 302  # to the page that asks for it
        assert listening(server) == {"127.0.0.1"}
        for address in own_addresses():
            with (
                pytest.raises(OSError),
                socket.create_connection((address, server.port), timeout=2),
            ):
                pass
        assert server.url() in server.log(), (
            "who has no browser on this machine needs the address with its token"
        )
        assert server.stop() == 130
        assert not server.left_over(), server.log()[-2000:]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.skipif(not environment.is_installed(), reason="make would install its own .venv first")
def test_make_lab_in_a_terminal_ends_after_ctrl_c_twice(tmp_path):
    """In a terminal Jupyter asks whether it should stop; a second Ctrl-C is a yes."""
    screen, keyboard = os.openpty()
    seen = bytearray()
    reader = threading.Thread(target=read_all, args=(screen, seen), daemon=True)
    options = {
        "stdin": keyboard,
        "stdout": keyboard,
        "stderr": keyboard,
        "preexec_fn": take_terminal,
    }
    with lab.serve(tmp_path, MAKE_LAB, **options) as server:
        os.close(keyboard)
        reader.start()
        assert fetch(server, "api/contents", server.token)[0] == 200
        os.write(screen, b"\x03")
        deadline = time.monotonic() + lab.STOP_SECONDS
        while b"Shut down this Jupyter server" not in seen:
            assert time.monotonic() < deadline, seen.decode(errors="replace")[-2000:]
            time.sleep(0.1)
        os.write(screen, b"\x03")
        server.process.wait(lab.STOP_SECONDS)
        assert not server.left_over(), server.log()[-2000:]
    reader.join(5)
    os.close(screen)
    assert b"Traceback" not in seen, seen.decode(errors="replace")[-9000:]
    assert server.url().encode() in seen


def take_terminal():
    """Make standard input the terminal of this session, so that Ctrl-C reaches its processes."""
    lab.hear_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_all(screen, seen):
    with contextlib.suppress(OSError):  # the terminal ends with its last process
        while text := os.read(screen, 4096):
            seen.extend(text)
