# Copyright Trainyard. Apache-2.0
"""The runs on a machine: who holds it, and what ranks wrote."""
