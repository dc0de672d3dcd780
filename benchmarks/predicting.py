"""What a predictor costs: `predict` and `explain` of a batch, against the forward pass of that batch.

    python benchmarks/predicting.py

Sixteen preprocessed pictures at once (reading and resizing files is no part of either), 120 prototypes of 12 classes,
random weights (the speed does not depend on them), one thread, processor time, the contestants in turns, so that a busy
machine slows both alike. Medians of ratios are shown; a first call of each, which traces fields, is not counted.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pixpnet._torchvision  # noqa: F401  isort: skip

import torch

from explaining import images, network, timed
from pixpnet.explanation.predictor import Predictor
from results import arguments_of, record
from side_by_side import noise

LIMIT = 1.1
CUTS = (("resnet18", "layer3", 224), ("vgg16", "maxpool4", 224))


def main() -> int:
    """Measures and prints; the exit code says whether the limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--backbones", nargs="*", default=[backbone for backbone, _, _ in CUTS])
    arguments = arguments_of(parser)
    torch.set_num_threads(1)
    worst = 0.0
    print(f"a batch of {arguments.batch_size} / its forward pass        predict  explain")
    for backbone, at, size in CUTS:
        if backbone not in arguments.backbones:
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = network(backbone, at, size, Path(folder))
            samples = images(model, arguments.batch_size)
            predictor = Predictor(model, batch_size=arguments.batch_size)
            batch = torch.stack([sample.image.as_subclass(torch.Tensor) for sample in samples])
            with torch.no_grad():
                model(batch)
            predictor.explain(samples)
            ratios: dict[str, list[float]] = {"predict": [], "explain": []}
            passes = []
            for _ in range(arguments.repeats):
                with torch.no_grad():
                    before = timed(lambda model=model, batch=batch: model(batch))
                predicted = timed(lambda p=predictor, s=samples: p.predict(s))
                explained = timed(lambda p=predictor, s=samples: p.explain(s))
                with torch.no_grad():
                    after = timed(lambda model=model, batch=batch: model(batch))
                passes.append((before + after) / 2)
                ratios["predict"].append(predicted / passes[-1])
                ratios["explain"].append(explained / passes[-1])
            medians = {name: statistics.median(values) for name, values in ratios.items()}
            worst = max(worst, *medians.values())
            for name, values in ratios.items():
                record("predicting", f"{name}, {backbone}", medians[name], noise(values))
            line = f"  {backbone + ' ' + at:20s} {size:3d} px  {1e3 * statistics.median(passes):6.0f} ms    "
            print(line + f"{medians['predict']:5.3f}    {medians['explain']:5.3f}", flush=True)
    print(f"wanted: at most {LIMIT}, reached: {worst:.3f}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
