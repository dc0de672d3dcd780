"""One recorder of a network's operations on real values, and one way to replay and check them."""

from pixpnet.tracing.program import Program, Traced, TracedStep
from pixpnet.tracing.recording import Recording, RecordingError, record

__all__ = ["Program", "Recording", "RecordingError", "Traced", "TracedStep", "record"]
