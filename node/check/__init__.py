"""What a node must have, as compared with what it has, and in which words that is said."""
