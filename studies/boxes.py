"""By how much does the box fail that the family's papers draw? Its claims and ours, put to the same test.

    python studies/boxes.py runs/family/protopnet-0 runs/family/tesnet-0 --images 10

ProtoPNet and its descendants show a prototype's match as the box around the top 5 % of the similarity map, upsampled
bicubically to the image. `prove` replaces everything outside that box, and everything outside the region that we
claim, and looks whether the distance at the matching cell stays what it was. For each run, over the parts that add
most to the predicted class on some validation images (every k-th of the split), the study prints

- how many claims were tested, and for how many of them the region that we claim is the whole image, so that there is
  nothing outside to change;
- the share of our other claims that held, and the mean share of the image that all of them cover;
- the share of boxes that held, and the mean share of the image that they cover;
- how far the similarity at the cell moved at most when everything outside the box was replaced, over the similarity:
  median over claims.
"""

import argparse
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pixpnet.class_names import printable
from pixpnet.explanation import explain, prove
from pixpnet.explanation.record import Term
from pixpnet.family import member_named
from pixpnet.training import Run

COLUMNS = ("network", "claims", "all of the image", "ours held", "our region", "boxes held", "their box", "moved by")


@dataclass(frozen=True)
class Claim:
    """One part of an explanation after the test.

    Attributes:
        ours: whether the region that we claim held; None where it is the whole image.
        region: its share of the image, 0-1.
        box: whether the box held that upsampling draws.
        box_area: its share of the image, 0-1.
        moved: how far the similarity moved when everything outside the box was replaced, over the similarity.
    """

    ours: bool | None
    region: float
    box: bool
    box_area: float
    moved: float


def claim_of(term: Term, size: tuple[int, int], similarity: float) -> Claim:
    """What the test of a term gave."""
    assert term.proof is not None
    ours, box, pixels = term.proof.field, term.proof.upsampling, size[0] * size[1]
    return Claim(
        ours=ours.passed if ours.outside else None,
        region=1 - ours.outside / pixels,
        box=box.passed,
        box_area=1 - box.outside / pixels,
        moved=box.largest_deviation / abs(similarity),
    )


def claims_of(path: Path, images: int, terms: int, draws: int) -> list[Claim]:
    """The claims of a run on some validation images."""
    run = Run(path)
    model, data = run.model(), run.data()
    claims = []
    for entry in data.val[:: max(1, len(data.val) // images)][:images]:
        sample = data.reader(entry)
        explanation = explain(model, sample)
        predicted = explanation.predicted
        strongest = sorted(predicted.terms, key=lambda term: -term.contribution)[:terms]
        asked = replace(explanation, classes=(replace(predicted, terms=tuple(strongest)),))
        for term in prove(model, sample, asked, draws=draws).predicted.terms:
            similarity = model.grid_of(term.prototype).comparison.similarity(torch.tensor(term.distance))
            claims.append(claim_of(term, explanation.size, float(similarity)))
    return claims


def line(name: str, claims: list[Claim]) -> str:
    """A row of the table."""

    def mean(values: list[float]) -> str:
        return f"{100 * statistics.mean(values):.1f}" if values else "–"

    cells = [
        name,
        str(len(claims)),
        str(sum(claim.ours is None for claim in claims)),
        mean([claim.ours for claim in claims if claim.ours is not None]),
        mean([claim.region for claim in claims]),
        mean([claim.box for claim in claims]),
        mean([claim.box_area for claim in claims]),
        f"{100 * statistics.median(claim.moved for claim in claims):.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Tests the claims of each run, and prints a line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--terms", type=int, default=5, help="parts of each image, those that add most")
    parser.add_argument("--draws", type=int, default=3, help="changed images for each region")
    args = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
    for path in args.runs:
        claims = claims_of(path, args.images, args.terms, args.draws)
        print(line(f"{member_named(Run(path).config.member).title} ({printable(path.name)})", claims), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
