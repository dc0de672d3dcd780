"""What all tabs of the explorer share: a run, its model, images to ask about, explanations of them, and jobs."""

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pixpnet.explanation import Explanation, explain
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.views.explorer.images import REMEMBERED_BYTES, Asked, Images
from pixpnet.views.explorer.jobs import Jobs
from pixpnet.views.explorer.uploads import Uploads

_REMEMBERED = 64
_MOST_WORKERS = 4


class Explorer:
    """One opened run. A model answers from several threads at once, so requests need no lock around it.

    Args:
        run: a finished run, or its folder.
        model: of the run; by default it is read.
        moved_to: where the run's data set is now, if it is not where it was.
        uploads: limits of what may be uploaded.
        remembered_bytes: of uploaded pictures.
        trust_code: whether a backbone that is code of its own may be called, also when the model is read again.
    """

    def __init__(
        self,
        run: Run | Path | str,
        model: PixPNet | None = None,
        moved_to: str | None = None,
        uploads: Uploads | None = None,
        remembered_bytes: int = REMEMBERED_BYTES,
        trust_code: bool = False,
    ) -> None:
        self.run = Run.of(run)
        self.model = (self.run.model() if model is None else model).eval()
        self.trust_code, self.moved_to = trust_code, moved_to
        self.images = Images(self.run, self.model, moved_to, remembered_bytes)
        self.jobs = Jobs()
        self.uploads = uploads or Uploads()
        workers = max(1, min(_MOST_WORKERS, os.cpu_count() or 1))
        self.workers = ThreadPoolExecutor(workers, thread_name_prefix="pixpnet-answer")
        self._explanations: OrderedDict[tuple[str, tuple[int, ...]], Explanation] = OrderedDict()
        self._naming = 0  # how often names have changed
        self._lock = threading.Lock()
        self._opening: threading.Thread | None = None

    def rename(self, names: Mapping[int, str]) -> None:
        """Shows these names of prototypes from now on; answers are made again."""
        with self._lock:
            if dict(self.model.names) != dict(names):
                self.model.names = dict(names)
                self._explanations.clear()
                self._naming += 1

    def start(self) -> None:
        """Begins to open the data set, beside everything else."""
        self._opening = threading.Thread(target=self.images.open_data, name="pixpnet-data", daemon=True)
        self._opening.start()

    def close(self) -> None:
        """Ends jobs and workers."""
        self.images.close()  # first: jobs may be waiting for the data set
        self.jobs.close()
        if self._opening is not None:
            self._opening.join()
        self.workers.shutdown(wait=True, cancel_futures=True)

    def explanation(self, asked: Asked, classes: tuple[int, ...] = ()) -> Explanation:
        """Why the model answers as it does, remembered for a while: the page asks for parts of it again and again."""
        key = (asked.id, classes)
        with self._lock:
            if key in self._explanations:
                self._explanations.move_to_end(key)
                return self._explanations[key]
            naming = self._naming
        explanation = explain(self.model, asked.sample, classes)
        with self._lock:
            if naming == self._naming:  # else it may have earlier names
                self._explanations[key] = explanation
            while len(self._explanations) > _REMEMBERED:
                self._explanations.popitem(last=False)
        return explanation
