"""Has a rank of a project write the stacks of its threads when it crashes or gets a signal.

Python imports this at every start (trainyard.pth). Outside of a rank it does nothing. The launcher
sends the last signal but eight, which no program has a use for (trainer/launch/hang_report.py);
people send SIGUSR1, unless a program takes that one for itself.
"""

import os

if "TRAINYARD_OUTPUT_DIR" in os.environ:
    import contextlib
    import faulthandler
    import signal

    # Without standard error there is nowhere to write.
    with contextlib.suppress(AttributeError, RuntimeError, ValueError):
        # UCX, which torch brings, would show frames of C alone; after its own it calls this one.
        faulthandler.enable()
        faulthandler.register(signal.SIGRTMAX - 8)
        faulthandler.register(signal.SIGUSR1)
