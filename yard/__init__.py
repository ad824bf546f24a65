"""The control node's side of Trainyard: plays, progress, records and reports of runs."""

import time

__version__ = "0.1.0"

# Unix seconds. Taken before anything slow is imported, so that a run's `seconds_to_first_step`
# counts all of what the user waits for.
STARTED_AT = time.time()
