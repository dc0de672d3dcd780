"""The shapes of the trunk: back, belly, wing, tail and legs, with their variants.

Frame: `bird` (see `shape`).
"""

from pixpnet.data.birds.curves import Points, closed_curve, ellipse, ribbon
from pixpnet.data.birds.shape import Shape, ordered

HIP = (0.06, 0.26)
TAIL_BASE = (-0.40, 0.10)
SHOULDER = (0.20, -0.10)
SOLES = 0.64
"""How far below the middle of the trunk the feet stand."""

_BACK: Points = [(0.22, -0.50), (0.10, -0.37), (-0.10, -0.24), (-0.30, -0.06), (-0.47, 0.10)]
_FRONT: Points = [
    (-0.49, 0.20), (-0.36, 0.26), (-0.16, 0.36), (0.08, 0.40), (0.30, 0.33),
    (0.46, 0.15), (0.535, -0.06), (0.545, -0.24), (0.50, -0.38),
]  # fmt: skip


def back() -> tuple[Shape, ...]:
    """The whole trunk, of which the belly and the wing leave the back."""
    ticks = [
        ribbon([(x, y), (x - 0.05, y + 0.035), (x - 0.10, y + 0.045)], [0.0, 0.016, 0.0])
        for x, y in ((0.13, -0.30), (0.05, -0.25), (-0.03, -0.215), (-0.12, -0.15), (-0.20, -0.09))
    ]
    return ordered(
        "back", "trunk", ("mantle", closed_curve([*_BACK, *_FRONT])), *(("mantle_dark", tick) for tick in ticks)
    )


def belly(variant: str) -> tuple[Shape, ...]:
    """Breast and belly, which show below the wing."""
    outline = closed_curve([*_FRONT[:-1], (0.44, -0.26), (0.30, -0.10), (0.14, 0.08), (-0.12, 0.13), (-0.34, 0.15)])
    fluff = [
        ribbon([(x, y), (x - 0.03, y + 0.03), (x - 0.08, y + 0.035)], [0.0, 0.014, 0.0])
        for x, y in ((0.24, 0.19), (0.10, 0.27), (-0.06, 0.26), (0.36, 0.05), (-0.20, 0.26))
    ]
    streaks = [
        ribbon([(x + 0.022, y - 0.055), (x + 0.004, y), (x - 0.022, y + 0.055)], [0.0, 0.05, 0.0])
        for x, y in (
            (0.46, 0.05), (0.37, 0.10), (0.41, 0.20), (0.28, 0.12), (0.31, 0.25), (0.20, 0.20), (0.21, 0.32),
            (0.10, 0.24), (0.09, 0.345), (0.00, 0.29), (-0.09, 0.25), (-0.10, 0.335), (-0.19, 0.28), (-0.29, 0.235),
        )
    ]  # fmt: skip
    bands = [
        ribbon(points, [0.012, 0.052, 0.052, 0.012])
        for points in (
            [(0.33, 0.02), (0.41, 0.045), (0.515, 0.03)],
            [(0.24, 0.12), (0.35, 0.155), (0.46, 0.14)],
            [(0.13, 0.18), (0.25, 0.255), (0.38, 0.25)],
            [(0.01, 0.19), (0.12, 0.315), (0.26, 0.345)],
            [(-0.12, 0.19), (-0.04, 0.30), (0.08, 0.385)],
            [(-0.24, 0.17), (-0.19, 0.26), (-0.11, 0.355)],
        )
    ]
    marks = {
        "plain": tuple(("under_dark", tick) for tick in fluff),
        "streaks": tuple(("dark", streak) for streak in streaks),
        "bands": tuple(("dark", band) for band in bands),
    }[variant]
    return ordered("belly", "trunk", ("under", outline), *marks)


def wing(variant: str) -> tuple[Shape, ...]:
    """The folded wing: flight feathers, and the coverts over them that carry the marks."""
    whole = closed_curve(
        [(0.25, -0.11), (0.17, -0.21), (0.00, -0.20), (-0.22, -0.07), (-0.46, 0.10), (-0.66, 0.25), (-0.66, 0.25)]
        + [(-0.42, 0.22), (-0.16, 0.20), (0.06, 0.17), (0.20, 0.05)]
    )
    coverts = closed_curve(
        [(0.25, -0.11), (0.17, -0.21), (0.02, -0.20), (-0.14, -0.11), (-0.19, -0.03)]
        + [(-0.13, 0.05), (-0.02, 0.11), (0.10, 0.12), (0.20, 0.04)]
    )
    quills: list[Points] = [
        [(-0.14, -0.05), (-0.36, 0.09), (-0.60, 0.225)],
        [(-0.12, 0.02), (-0.32, 0.13), (-0.54, 0.215)],
        [(-0.07, 0.08), (-0.24, 0.16), (-0.42, 0.205)],
        [(0.00, 0.12), (-0.12, 0.165), (-0.24, 0.19)],
    ]
    scallops: list[Points] = [
        [(0.10, -0.17), (0.05, -0.10), (0.08, -0.03), (0.16, 0.00)],
        [(0.00, -0.16), (-0.05, -0.08), (-0.02, 0.01), (0.07, 0.05)],
    ]
    bars: list[Points] = [
        [(0.075, -0.185), (0.02, -0.09), (0.05, 0.02), (0.13, 0.07)],
        [(-0.10, -0.12), (-0.165, -0.03), (-0.10, 0.07), (-0.01, 0.12)],
    ]
    spots = (
        (0.13, -0.12), (0.10, 0.02), (0.01, -0.09), (-0.02, 0.06), (-0.10, -0.03),
        (-0.14, 0.10), (-0.23, 0.03), (-0.28, 0.145), (-0.37, 0.12),
    )  # fmt: skip
    marks = {
        "plain": (),
        "bars": tuple(("pale", ribbon(bar, [0.035, 0.062, 0.062, 0.03])) for bar in bars),
        "spots": tuple(("pale", ellipse(spot, (0.034, 0.030), -30, vertices=14)) for spot in spots),
    }[variant]
    return ordered(
        "wing",
        "wing",
        ("wing_dark", whole),
        *(("wing", ribbon(quill, [0.03, 0.034, 0.0])) for quill in quills),
        ("wing", coverts),
        *(("wing_light", ribbon(scallop, [0.0, 0.016, 0.016, 0.0])) for scallop in scallops),
        *marks,
    )


def tail(variant: str) -> tuple[Shape, ...]:
    """The tail, which starts under the wing tips."""
    if variant == "fork":
        prongs: list[Points] = [
            [(-0.32, 0.06), (-0.52, 0.12), (-0.78, 0.16), (-1.08, 0.10)],
            [(-0.32, 0.16), (-0.52, 0.22), (-0.74, 0.34), (-0.96, 0.50)],
        ]
        return ordered(
            "tail",
            "tail",
            *(("tail", ribbon(prong, [0.18, 0.17, 0.12, 0.0])) for prong in prongs),
            *(("tail_dark", ribbon(prong[1:], [0.0, 0.02, 0.0])) for prong in prongs),
        )
    if variant == "fan":
        vane = closed_curve(
            [(-0.30, 0.02), (-0.56, 0.06), (-0.86, 0.06), (-0.95, 0.16), (-0.96, 0.30), (-0.90, 0.43), (-0.80, 0.50)]
            + [(-0.55, 0.34), (-0.32, 0.24)]
        )
        band = ribbon([(-0.85, 0.075), (-0.895, 0.18), (-0.89, 0.30), (-0.80, 0.465)], [0.05, 0.075, 0.075, 0.04])
        rays: list[Points] = [
            [(-0.44, 0.11), (-0.64, 0.14), (-0.84, 0.15)],
            [(-0.44, 0.16), (-0.62, 0.22), (-0.84, 0.28)],
            [(-0.44, 0.20), (-0.60, 0.29), (-0.79, 0.40)],
        ]
        feathers = (("tail_dark", ribbon(ray, [0.0, 0.02, 0.016])) for ray in rays)
        return ordered("tail", "tail", ("tail", vane), *feathers, ("pale", band))
    stub = closed_curve(
        [(-0.32, 0.04), (-0.50, 0.08), (-0.72, 0.17), (-0.72, 0.17), (-0.68, 0.31), (-0.68, 0.31)]
        + [(-0.50, 0.27), (-0.34, 0.24)]
    )
    return ordered("tail", "tail", ("tail", stub), ("tail_dark", ribbon([(-0.45, 0.15), (-0.69, 0.24)], [0.0, 0.02])))


def legs(variant: str) -> tuple[Shape, ...]:
    """Both legs, the far one first, with their toes."""
    return (*_leg(variant, -0.06, "leg_dark"), *_leg(variant, 0.15, "leg"))


def _leg(variant: str, x: float, tone: str) -> tuple[Shape, ...]:
    ankle = SOLES - 0.03
    shank = ribbon([(x, 0.30), (x - 0.015, 0.46), (x, ankle)], [0.045, 0.042, 0.048])
    toes = [
        ribbon([(x, ankle), (x + reach / 2, SOLES - 0.02), (x + reach, SOLES + 0.015)], [0.045, 0.036, 0.016])
        for reach in (0.14, 0.08, -0.09)
    ]
    marks = {
        "bare": (),
        "trousers": (("under", closed_curve([(x - 0.09, 0.30), (x + 0.09, 0.30), (x + 0.068, 0.46), (x + 0.035, 0.575), (x - 0.05, 0.575), (x - 0.085, 0.46)])),),
        "rings": tuple(
            ("pale" if row % 2 == 0 else "dark", ribbon([(x - 0.008, y), (x - 0.008, y + 0.055)], [0.078, 0.078], 1))
            for row, y in enumerate((0.375, 0.43, 0.485, 0.54))
        ),
    }[variant]
    return ordered("leg", "leg", (tone, shank), *((tone, toe) for toe in toes), *marks)
