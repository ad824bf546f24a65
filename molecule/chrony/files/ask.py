"""Asks a time server as NTP has it (RFC 5905), and prints its stratum and how far it is off."""

import socket
import struct
import sys
import time

# Seconds. On one machine an answer takes a thousandth of that.
PATIENCE = 2
# Seconds between 1900, where NTP begins to count, and 1970.
EPOCH = 2_208_988_800
# Version 4, and what asks: a client
REQUEST = bytes([4 << 3 | 3]) + bytes(47)


def asked(address: str) -> str:
    """What a server answers: "stratum N, off by S s", or why it does not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(PATIENCE)
        try:
            asking.connect((address, 123))
            asking.send(REQUEST)
            answer = asking.recv(512)
        except OSError as error:
            return f"no answer ({error})"
    seconds, fraction = struct.unpack("!II", answer[40:48])
    off = seconds - EPOCH + fraction / 2**32 - time.time()
    return f"stratum {answer[1]}, off by {abs(off):.0f} s"


print(asked(sys.argv[1]))
