"""What is printed: progress, tables, the result of a run."""
