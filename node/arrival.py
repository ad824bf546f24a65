"""How the package comes to a machine, and is called there. Who calls sends this text:

    python3 -I -c TEXT call PLACE DIGEST < request.json    runs what lies in PLACE/DIGEST
    python3 -I -c TEXT bring PLACE DIGEST < package.json   puts it there: path to text of each file

What it says is as in calls.py. Root executes what lies there, so it lies where nobody else can put
anything: that is looked at with each call, before anything of it is read.
"""

# This text has to reach its first check in a Python that is too old for the rest of the package.
import json
import os
import re
import stat
import sys
import time

OLDEST = (3, 9)
# Versions of the package that stay beside each other: of several checkouts that use the machine.
KEPT = 3
# An unfinished one that is older than this, in seconds, is left from a delivery that was cut off.
ABANDONED = 3600
# Of the package, in bytes.
MOST_BYTES = 8 << 20
DIGEST = re.compile(r"[0-9a-f]{64}")


class ArrivalError(Exception):
    """The package is not here, or is not to be executed: a code, and what belongs to it by name."""

    def __init__(self, code: str, **values: object) -> None:
        super().__init__(code)
        self.document = {"error": {"code": code, "values": values}}


def read_package(folder: str) -> bytes:
    """Return the Python files below a folder as they travel; its SHA-256 is their digest."""
    files = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(place, name)
                with open(path, encoding="utf-8", newline="") as file:
                    files[os.path.relpath(path, folder)] = file.read()
    return json.dumps(files, sort_keys=True).encode()


def require_own(folder: str) -> None:
    """See that nobody but this account and root can put anything into a folder, or in its place.

    That is so where the folders that lead there, of an account from its home on, are of the two and
    nobody else may write in them. In one with the sticky bit others cannot move what is not theirs.

    Raises:
        ArrivalError: somebody can.
        FileNotFoundError: it is not there.
    """
    account, home = os.geteuid(), os.path.expanduser("~")
    # The group of an account without root is often the account alone.
    others = 0o022 if account == 0 else 0o002
    for path in (folder, os.path.realpath(folder)):
        while path not in ("/", home, os.path.realpath(home)):
            # Of a link both, for whoever made it could have it lead elsewhere a moment later.
            for look in (os.lstat, os.stat):
                about = look(path)
                own = stat.S_ISLNK(about.st_mode) or not about.st_mode & others
                if path != folder:
                    own = own or bool(about.st_mode & stat.S_ISVTX)
                if not own or about.st_uid not in (0, account):
                    mode = stat.filemode(about.st_mode)
                    raise ArrivalError("not_own", path=path, mode=mode, uid=about.st_uid)
            path = os.path.dirname(path)


def call(folder: str) -> int:
    """Run the package that lies in a folder; return the exit status.

    Raises:
        ArrivalError: there is none, or it is not to be executed.
    """
    try:
        require_own(folder)
    except FileNotFoundError:
        sys.stdin.buffer.read()  # for whoever is still writing it
        raise ArrivalError("absent") from None
    sys.path.insert(0, folder)
    from node.calls import main

    return main()


def bring(folder: str) -> int:
    """Put the package on standard input into a folder, unless it is there; return the exit status.

    It gets its name when all of it is on the disk, so of two deliveries at once one is kept, and a
    machine that loses its power has it whole or not at all.

    Raises:
        ArrivalError: it cannot be, or is not what its digest says.
    """
    import compileall
    import hashlib
    import py_compile
    import shutil
    import tempfile

    place, digest = os.path.split(folder)
    text = sys.stdin.buffer.read(MOST_BYTES)
    if hashlib.sha256(text).hexdigest() != digest:
        raise ArrivalError("damaged", digest=digest)
    private = None
    try:
        os.makedirs(place, exist_ok=True)
        require_own(place)
        private = tempfile.mkdtemp(prefix=".new-", dir=place)
        package = os.path.join(private, "node")
        for path, content in json.loads(text).items():
            target = os.path.join(package, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8", newline="") as file:
                file.write(content)
        # The files never change: no time of theirs has to be compared.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(
            package, quiet=2, stripdir=private, prependdir=folder, invalidation_mode=mode
        )
        for where, _, names in os.walk(private):
            for name in names:
                written = os.open(os.path.join(where, name), os.O_RDONLY)
                os.fsync(written)
                os.close(written)
        if hashlib.sha256(read_package(package)).hexdigest() != digest:
            raise ArrivalError("damaged", digest=digest)
        os.chmod(private, 0o755)
        if not os.path.isdir(folder):
            os.rename(private, folder)
    except OSError as error:
        if not os.path.isdir(folder):
            raise ArrivalError("not_stored", path=place, message=error.strerror) from error
    finally:
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)  # it has moved, or is in nobody's way
    forget(place, digest)
    print(json.dumps({"answer": {}}))
    return 0


def forget(place: str, digest: str) -> None:
    """Remove all but the newest packages, and what was left unfinished."""
    import shutil

    ages = {}
    for entry in os.scandir(place):
        about = entry.stat(follow_symlinks=False)
        if entry.name.startswith(".new-") and time.time() - about.st_mtime > ABANDONED:
            shutil.rmtree(entry.path, ignore_errors=True)  # another delivery may do it as well
        elif DIGEST.fullmatch(entry.name) and entry.name != digest:
            ages[entry.path] = about.st_mtime
    for path in sorted(ages, key=lambda path: ages[path], reverse=True)[KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)  # as above


def main(what: str, place: str, digest: str) -> int:
    """Do what is asked for; return the exit status."""
    os.umask(0o022)
    try:
        if sys.version_info < OLDEST:
            raise ArrivalError("python_too_old", version=sys.version.split()[0])
        home = os.path.expanduser("~")
        folder = os.path.join(home, os.path.expanduser(place), digest)
        return {"call": call, "bring": bring}[what](folder)
    except ArrivalError as error:
        told = error
    except OSError as error:  # the kernel lets nobody through a link of others, in a sticky folder
        told = ArrivalError("not_usable", path=error.filename or place, message=error.strerror)
    print(json.dumps(told.document))
    return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
