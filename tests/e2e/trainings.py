"""What trainings of the tests are started with."""

from collections.abc import Mapping

# The smallest model: it is not the training that is tested, and every epoch ends with all of the
# test set.
SMALL: Mapping[str, object] = {"MODEL": "cnn_a", "NODES": 2, "BATCH": 16}
# Trains until something ends it.
LONG: Mapping[str, object] = {**SMALL, "EPOCHS": 5000, "TRAIN_IMAGES": 640}
# Trains long enough to be hit while it does.
SHORT: Mapping[str, object] = {**SMALL, "EPOCHS": 3, "TRAIN_IMAGES": 1280}
SHORT_STEPS = 120
# Is over at once.
SHORTEST: Mapping[str, object] = {**SMALL, "EPOCHS": 1, "TRAIN_IMAGES": 128}
# Noticed as a stall after 12 s without a step
STALLING: Mapping[str, object] = {**LONG, "STALL": 12}
