"""Has a rank of a project whose program ends with an error end at once, whatever MPI waits for.

Python imports this at every start (trainyard.pth). Outside of a rank it does nothing.

When a process ends, mpi4py and PyTorch's backend of MPI call MPI_Finalize, which waits for all
ranks. Where one has failed, the others mostly wait for a message of it, so that none would end.
"""

import os

if "TRAINYARD_OUTPUT_DIR" in os.environ:
    import atexit
    import contextlib
    import sys

    def _abort_failed() -> None:
        """Leave with the status that Python has for an error, without MPI_Finalize."""
        if not _has_failed() or not _is_in_mpi():
            return
        for stream in (sys.stdout, sys.stderr):
            # One that is closed, or on a full disk, is no reason to stay.
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(1)

    def _has_failed() -> bool:
        """Whether an error ended the program.

        Python keeps the last error that it printed. A library may have had one printed, and the
        program went on: that one did not come up to where the program itself begins.
        """
        kind, trace = getattr(sys, "last_type", None), getattr(sys, "last_traceback", None)
        if kind is None or trace is None or not issubclass(kind, Exception):
            return False
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
    atexit.register(_abort_failed)
