"""Asks ports of an address, and prints a line for each: PORT answers, refused or silent."""

import socket
import sys

# Seconds. On one machine an answer takes a thousandth of that.
PATIENCE = 2


def asked(address: str, port: int) -> str:
    """How a port answers."""
    try:
        with socket.create_connection((address, port), timeout=PATIENCE) as connection:
            connection.sendall(b"42\n")
            # sshd speaks first, and says something else.
            return "answers" if connection.recv(3) in (b"42\n", b"SSH") else "says something else"
    except TimeoutError:
        return "silent"
    except OSError as error:
        return f"refused ({error.strerror})"


address, *ports = sys.argv[1:]
for port in ports:
    print(port, asked(address, int(port)))
