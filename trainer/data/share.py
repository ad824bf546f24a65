"""Errors of network shares: a server that is gone must not look like damaged data."""

import os
from pathlib import Path

from trainer.errors import DataError, FileDeniedError, ShareGoneError
from trainer.mounts import OUT_OF_REACH, mount_of


def cannot_read(path: Path, error: Exception, otherwise: str) -> DataError:
    """Return the error to raise where a file of a data set cannot be read.

    Args:
        otherwise: the message for errors that the file itself is the cause of.
    """
    if isinstance(error, PermissionError):
        return FileDeniedError(path=str(error.filename or path))
    if not isinstance(error, OSError) or error.errno not in OUT_OF_REACH:
        return DataError(otherwise)
    message = os.strerror(error.errno)
    return ShareGoneError(message, path=str(path), share=str(mount_of(path)))
