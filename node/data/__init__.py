# Copyright Trainyard. Apache-2.0
"""Data sets: had on the control node, listed with their checksums, and put in place on a node."""
