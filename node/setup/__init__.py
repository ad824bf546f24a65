"""What set-up makes of a machine, compared with what is there.

A look changes nothing. Beside it stands what modules of the roles write and what a look reads: keys
of users, and what an engine ran with before.
"""
