"""A user's own code: which of its files travel, what is run of them, and the copy a run keeps."""
