"""What a user asks for, checked against what an inventory offers."""
