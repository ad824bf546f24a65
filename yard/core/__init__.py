"""What every other room of `yard` stands on: errors, files, the checkout, the words for numbers."""
