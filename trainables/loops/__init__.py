"""The curriculum in training loops of other programs."""
