"""What a machine has, and how busy it is."""
