# Copyright Trainyard. Apache-2.0
"""Whose files a run's are: root's and the training user's, or of an account without root all its
own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# Who keeps the records of runs, which ranks cannot write.
KEEPER = os.geteuid()


def with_account(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a module's options with the user that ranks are on this node.

    Without root it is the account itself: it can give its files to nobody. In the container it has
    the number of the training user all the same.
    """
    if KEEPER == 0:
        return dict(options)
    return {**options, "uid": os.geteuid(), "gid": os.getegid()}
