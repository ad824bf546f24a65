"""The first contact with hosts: how SSH gets there, what is wrong, and what mends it."""
