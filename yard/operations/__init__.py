"""Steps that several commands share: set-up, launch, following a run, its end.

What plays a playbook raises ClusterError where a task failed, which has been shown, and Interrupted
where the user stopped it; to run it again goes on. Docstrings say what more there is to know.
"""
