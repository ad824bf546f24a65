"""Notes why a rank of a project ends; one with an error ends at once, whatever MPI waits for.

Python imports this at every start (trainyard.pth). Outside of a rank it does nothing.

A log cannot say whether an exception in it ended the program: a program may log one that it got
over. The interpreter knows. What ended it goes to the file that @record of PyTorch writes, in its
form, where the program has not done that; torchrun reads it of the ranks that it starts. That none
did is said beside the rank's sign of life.

When a process ends, mpi4py and PyTorch's backend of MPI call MPI_Finalize, which waits for all
ranks. Where one has failed, the others mostly wait for a message of it, so that none would end.
"""

import os

if "TRAINYARD_OUTPUT_DIR" in os.environ:
    import atexit
    import contextlib
    import sys

    # More of a message, and of the end of a stack, helps nobody.
    MESSAGE, STACK = 16_000, 250_000
    # A place with less free bytes is full.
    LEAST_ROOM = 1 << 20
    # What those say that write to a full place, as signature program_place_full has it.
    FULL = (
        "No space left on device|PytorchStreamWriter failed writing"
        r"|inline_container.*unexpected pos|\d+ requested and \d+ written"
        "|Not enough free space to write|database or disk is full"
    )
    # Of /dev/shm. What a worker of a data loader wanted of it is free again when it has died.
    SHARED_MEMORY_FULL = (
        "out of shared memory|killed by signal: Bus error|shared memory[^\n]*No space left"
        "|No space left[^\n]*/dev/shm"
    )

    # Whether torchrun started this process as a rank. It gives each a file of its own, which what
    # the rank starts in turn finds too.
    FILE = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    IS_OF_TORCHRUN = os.environ.get("TRAINYARD_ERROR_FILE", FILE) != FILE
    os.environ["TRAINYARD_ERROR_FILE"] = FILE

    def _end() -> None:
        """Note the end; after an error leave with Python's status for it, without MPI_Finalize."""
        failed = _has_failed()
        # A full disk is no reason to stay, nor is what the program has made of modules.
        with contextlib.suppress(Exception):
            _note(failed)
        if not failed or not _is_in_mpi():
            return
        for stream in (sys.stdout, sys.stderr):
            # One that is closed, or on a full disk, is no reason to stay.
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(1)

    def _note(failed: bool) -> None:
        """Write whether an exception ended the rank's own process, and which."""
        is_own = os.environ.get("TRAINYARD_PROGRAM") == str(os.getpid())
        if not is_own and not IS_OF_TORCHRUN:
            return  # a process that the program started
        # With LAUNCH=node the log is of a node, and so is its number.
        rank = os.environ["GROUP_RANK" if IS_OF_TORCHRUN else "RANK"]
        run = os.environ["TRAINYARD_RUN_DIR"]
        if is_own:
            with open(f"{run}/ranks/{rank}.exception", "w", encoding="ascii") as file:
                file.write("true" if failed else "false")
        if not failed:
            return
        import json
        import time
        import traceback

        error = sys.last_value
        assert error is not None
        full = _full_place(error)
        if full:
            finding = {"rank": int(rank), "host": os.uname().nodename, **full}
            path = f"{run}/failures/rank-{rank}.json"
            # Another rank of torchrun's may have written it.
            with contextlib.suppress(FileExistsError), open(path, "x", encoding="utf-8") as file:
                json.dump({**finding, "message": str(error)[:MESSAGE]}, file)
        stack = "".join(traceback.format_exception(error))
        told = {
            "message": f"{type(error).__name__}: {error}"[:MESSAGE],
            "extraInfo": {"py_callstack": stack[-STACK:], "timestamp": str(int(time.time()))},
        }
        with open(FILE, "x", encoding="utf-8") as file:
            json.dump({"message": told}, file)

    def _full_place(error: BaseException) -> "dict[str, object] | None":
        """Which of a rank's places is full, where the error says that one is.

        The errno does not tell which: a write names no file. torch.save, NumPy and SQLite do not
        even say that it is for want of room; then the place says so.
        """
        import errno
        import re

        chain = [error]
        while (before := chain[-1].__cause__ or chain[-1].__context__) and before not in chain:
            chain.append(before)
        said = "\n".join(map(str, chain))
        numbers = {getattr(each, "errno", None) for each in chain}
        in_shm = re.search(SHARED_MEMORY_FULL, said)
        if errno.ENOSPC not in numbers and not in_shm and not re.search(FULL, said):
            return None
        # NumPy looks for room before it writes.
        wanted = re.search(r"free space to write (\d{1,18}) bytes", said)
        least = max(LEAST_ROOM, int(wanted[1]) if wanted else 0)
        places = {
            "container_place_full": ["/tmp", os.path.expanduser("~")],
            "container_shm_full": ["/dev/shm"],
            "run_directory_full": [os.getcwd()],
        }
        if in_shm:
            places = {"container_shm_full": ["/dev/shm"]}
        for code, paths in places.items():
            for path in paths:
                disk = os.statvfs(path)
                size = f"{disk.f_blocks * disk.f_frsize / 1e9:.1f} GB"
                # Some file systems have no limit of inodes and count none.
                if disk.f_files and not disk.f_favail:
                    size += f" with as many files as it takes, {disk.f_files:,} (inodes)"
                elif not in_shm and disk.f_bavail * disk.f_frsize >= least:
                    continue
                return {"code": code, "values": {"path": path, "size": size}}
        return None

    def _has_failed() -> bool:
        """Whether an error ended the program.

        Python keeps the last error that it printed. A library may have had one printed, and the
        program went on: that one did not come up to where the program itself begins.
        """
        kind, trace = getattr(sys, "last_type", None), getattr(sys, "last_traceback", None)
        if kind is None or not issubclass(kind, Exception):
            return False
        if trace is None:
            return issubclass(kind, SyntaxError)  # of the script itself, which never began
        frame = trace.tb_frame
        # Of a script, and of `python3 -m`.
        return frame.f_back is None and frame.f_code.co_name in ("<module>", "_run_module_as_main")

    def _is_in_mpi() -> bool:
        """Whether this process has joined MPI, through whatever library, and not left it.

        `trainer.openmpi` looks in the same way. It cannot be imported here: a program may have a
        module `trainer` of its own.
        """
        import ctypes

        try:
            # The library that the process has. None is loaded.
            mpi = ctypes.CDLL("libmpi.so.40", mode=os.RTLD_NOLOAD)
        except OSError:
            return False
        has_joined, has_left = ctypes.c_int(), ctypes.c_int()
        mpi.MPI_Initialized(ctypes.byref(has_joined))
        mpi.MPI_Finalized(ctypes.byref(has_left))
        return bool(has_joined.value) and not has_left.value

    # Before a program can register anything, so that it comes after all of that.
    atexit.register(_end)
