# Copyright Trainyard. Apache-2.0
"""What a machine has, and how busy it is."""
