"""Benchmarks that run under mpirun, every rank in step."""
