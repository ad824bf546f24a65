"""The command docker, as the modules of this role use it."""

import subprocess
import tempfile


class DockerError(Exception):
    """The command failed; the text is what it said."""


def docker(*arguments: str) -> str:
    """Run the command, and return what it printed.

    It reads no configuration: a helper for credentials that somebody has set there would be asked
    for those of a registry that has none.

    Raises:
        DockerError: it is not there, or failed.
    """
    with tempfile.TemporaryDirectory() as configuration:
        command = ["docker", "--config", configuration, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise DockerError(f"docker: {error.strerror}") from error
    if done.returncode:
        raise DockerError(done.stderr.strip())
    return done.stdout.strip()


def repository(reference: str) -> str:
    """The part of an image's name before the tag."""
    return reference.rpartition(":")[0]
