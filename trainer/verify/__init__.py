"""What `make verify` runs in the trainer's containers: a rank on every node, or GPU."""
