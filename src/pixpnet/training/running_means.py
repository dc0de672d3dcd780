"""Means over an epoch up to now, for whoever watches."""

from dataclasses import dataclass


@dataclass
class RunningMeans:
    """Means over the epoch up to now, in this process."""

    images: int = 0
    loss: float = 0.0
    accuracy: float = 0.0

    def add(self, loss: float, accuracy: float, images: int) -> None:
        """Adds the values of a batch."""
        self.images += images
        self.loss += (loss - self.loss) * images / self.images
        self.accuracy += (accuracy - self.accuracy) * images / self.images
