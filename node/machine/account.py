"""Whose files a run's are: root's and the training user's, or of an account without root all its
own."""

from __future__ import annotations

import os

# Who keeps the records of runs, which ranks cannot write.
OWN_UID = os.geteuid()


def ranks_account(uid: int, gid: int) -> tuple[int, int]:
    """Return user and group id of the ranks on this machine.

    Without root they are the account itself, which can give its files to nobody. In the container
    it has the number of the training user all the same.
    """
    return (uid, gid) if OWN_UID == 0 else (os.geteuid(), os.getegid())
