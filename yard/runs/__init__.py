"""Run directories: their records, and what can be concluded from them."""
