"""One module for each command of `yard`.

Each raises RequestError where what is asked for makes no sense, before anything is touched,
ClusterError where the cluster is not fit for it or a task failed, which has been shown, and
Interrupted where the user stopped it. Their docstrings say what more there is to know of that.
"""
