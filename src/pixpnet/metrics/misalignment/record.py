"""What attacks came to: image by image, and PAC, PRC, PLC and AC with intervals.

| figure | of one attacked prototype t |
|---|---|
| PAC, activation change | 1 - a_t(x') / a_t(x), scores clipped at 0; undefined where a_t(x) is 0 |
| fixed-cell PAC | the same of the similarity at the cell that spoke before the attack |
| PRC, ranking change | prototypes of other classes that score higher than t: how many more; undefined with PAC |
| PLC, location change | 1 - IoU of the map's highest tenth before and after; undefined where both are empty |
| AC, accuracy change | accuracy before minus after |

With the exact field protected the named cell cannot move, so its PAC is 0 for every pooling whose score is the cell's
similarity; and with max pooling the largest similarity can only grow, so that PAC is 0 or less. Both up to rounding.
PLC depends on the whole map, and is not bound by that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median

from pixpnet.metrics.bootstrap import DefinedMean, defined_mean
from pixpnet.metrics.misalignment.attacks import Attack, AttackSettings
from pixpnet.metrics.misalignment.protection import Protection
from pixpnet.records import ADDED_LATER


@dataclass(frozen=True)
class AttackedPrototype:
    """One prototype in one image, before the attack and after; scores and similarities are clipped at 0.

    Attributes:
        prototype: its number.
        before, after: its score.
        cell_before, cell_after: similarity of the cell that spoke for it before.
        moved: whether the measure at that cell changed by more than rounding can.
        rivals_before, rivals_after: prototypes of other classes with a larger score.
        overlap: IoU of the highest tenth of its map; None where that is empty both times.
    """

    prototype: int
    before: float
    after: float
    cell_before: float
    cell_after: float
    moved: bool
    rivals_before: int
    rivals_after: int
    overlap: float | None

    @property
    def pac(self) -> float | None:
        """Activation change; None where the score was 0."""
        return 1 - self.after / self.before if self.before > 0 else None

    @property
    def fixed_cell_pac(self) -> float | None:
        """Activation change of the cell that spoke before; None where its similarity was 0."""
        return 1 - self.cell_after / self.cell_before if self.cell_before > 0 else None

    @property
    def prc(self) -> float | None:
        """Ranking change; None where the score was 0: clipped there, scores have no order."""
        return self.rivals_after - self.rivals_before if self.before > 0 else None

    @property
    def plc(self) -> float | None:
        """Location change."""
        return None if self.overlap is None else 1 - self.overlap


@dataclass(frozen=True)
class AttackedImage:
    """One image under one attack.

    Attributes:
        prototypes: those that were attacked.
        free: share of the pixels that could be changed.
        right_before, right_after: whether the answer was right.
    """

    prototypes: tuple[AttackedPrototype, ...]
    free: float
    right_before: bool
    right_after: bool


@dataclass(frozen=True)
class Misalignment:
    """Spatial misalignment over images; shares are 0-1, and PRC counts prototypes.

    Attributes:
        attack: which one.
        protected: what it may not touch.
        settings: of the attack.
        images: how many were attacked.
        pac: activation change.
        median_pac: its median, which a few huge values do not decide; None where nothing is defined.
        fixed_cell_pac: of the cell that spoke before.
        prc: ranking change.
        plc: location change.
        ac: accuracy before minus after.
        accuracy_before, accuracy_after: on these images.
        free: share of the pixels that could be changed; where it is small an attack can do little.
        moved: how many prototypes' cells changed by more than rounding can; 0 with the exact field protected.
        attacked: how many prototypes were attacked, in all images together.
        scoreless: how many of those had a score of 0, so that their PAC and PRC are undefined and in no image's mean.
        changes: the activation change of each image, to be drawn; None where it is undefined.
    """

    attack: Attack
    protected: Protection
    settings: AttackSettings
    images: int
    pac: DefinedMean
    median_pac: float | None
    fixed_cell_pac: DefinedMean
    prc: DefinedMean
    plc: DefinedMean
    ac: DefinedMean
    accuracy_before: float | None
    accuracy_after: float | None
    free: DefinedMean
    moved: int
    changes: tuple[float | None, ...]
    attacked: int = field(default=0, metadata=ADDED_LATER)
    scoreless: int = field(default=0, metadata=ADDED_LATER)


def summarize(
    images: Mapping[str, AttackedImage],
    attack: Attack,
    protected: Protection,
    settings: AttackSettings,
    seed: int = 0,
) -> Misalignment:
    """Means over images, with intervals that draw images again; an image's prototypes are averaged first."""
    names = list(images)
    attacked = list(images.values())

    def of_images(value: Callable[[AttackedPrototype], float | None]) -> DefinedMean:
        return defined_mean([_mean([value(one) for one in image.prototypes]) for image in attacked], names, seed)

    activations = [_mean([one.pac for one in image.prototypes]) for image in attacked]
    defined = [value for value in activations if value is not None]
    return Misalignment(
        attack=attack,
        protected=protected,
        settings=settings,
        images=len(attacked),
        pac=of_images(lambda one: one.pac),
        median_pac=median(defined) if defined else None,
        fixed_cell_pac=of_images(lambda one: one.fixed_cell_pac),
        prc=of_images(lambda one: one.prc),
        plc=of_images(lambda one: one.plc),
        ac=defined_mean([float(image.right_before) - float(image.right_after) for image in attacked], names, seed),
        accuracy_before=fmean(image.right_before for image in attacked) if attacked else None,
        accuracy_after=fmean(image.right_after for image in attacked) if attacked else None,
        free=defined_mean([image.free for image in attacked], names, seed),
        moved=sum(one.moved for image in attacked for one in image.prototypes),
        changes=tuple(activations),
        attacked=sum(len(image.prototypes) for image in attacked),
        scoreless=sum(one.pac is None for image in attacked for one in image.prototypes),
    )


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None
