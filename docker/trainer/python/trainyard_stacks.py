"""Has a rank of a project write the stacks of its threads when it gets SIGUSR1.

Python imports this at every start (trainyard.pth). Outside of a rank it does nothing. A program
that wants the signal for itself takes it.
"""

import os

if "TRAINYARD_OUTPUT_DIR" in os.environ:
    import contextlib
    import faulthandler
    import signal

    # Without standard error there is nowhere to write.
    with contextlib.suppress(AttributeError, RuntimeError, ValueError):
        faulthandler.register(signal.SIGUSR1)
