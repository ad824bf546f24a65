"""One module for each command of `yard`."""
