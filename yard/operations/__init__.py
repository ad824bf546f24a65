"""Steps that several commands share: set-up, launch, following a run, its end."""
