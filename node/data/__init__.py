"""Data sets: had on the control node, listed with their checksums, and put in place on a node."""
