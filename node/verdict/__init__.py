"""What several nodes said, compared with each other and with what is wanted."""
