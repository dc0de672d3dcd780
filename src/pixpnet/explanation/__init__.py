"""Why the model answered as it did, and the proof of it."""
