"""The runs on a machine: who holds it, and what ranks wrote."""
