# Copyright Trainyard. Apache-2.0
"""What set-up makes of a machine, compared with what is there. Nothing here changes anything."""
