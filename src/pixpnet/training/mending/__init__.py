"""Mending: edits of a trained model that a person asked for, without retraining; and training with their verdicts."""
