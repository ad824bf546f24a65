# Copyright Trainyard. Apache-2.0
"""What several nodes said, compared with each other and with what is wanted."""
