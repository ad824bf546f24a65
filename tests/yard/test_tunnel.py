"""The way to a notebook: nobody else is given what goes through it."""

import os
import socket

from yard.contact.tunnel import LOOPBACK, free_port, listens_for_us

NOBODY = 65534


def listen_as(uid: int, port: int) -> socket.socket:
    """Listen on a port as an account."""
    own = os.geteuid()
    os.seteuid(uid)
    try:
        return socket.create_server((LOOPBACK, port))
    finally:
        os.seteuid(own)


def test_only_a_program_of_this_account_counts() -> None:
    port = free_port()
    assert not listens_for_us(port)
    with listen_as(os.geteuid(), port):
        assert listens_for_us(port)
    assert not listens_for_us(port)
    with listen_as(NOBODY, port):
        assert not listens_for_us(port)
