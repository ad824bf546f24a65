"""Runs mpirun on the first node of a run, and ends it when the ranks cannot get on any longer.

`python3 -m trainer.launch MPIRUN-ARGUMENT... [--then MPIRUN-ARGUMENT...]`; `settings` has what the
environment decides. A second mpirun, behind `--then`, runs when the first has ended well.

In the run directory appear

    logs/mpirun.log         the output of every mpirun, and what is said of them here
    failures/launcher.json  why mpirun was ended or not started: a list of codes and values, as
                            schemas/launcher_failures.schema.json describes; only after a failure
    exit_status             when mpirun has ended, and not before

Nothing here needs the control node: a run that hangs is ended while nobody follows it.
"""
