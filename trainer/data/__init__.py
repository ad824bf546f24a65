"""Data sets: prepared once into arrays, held in memory, sharded and augmented in batches."""
