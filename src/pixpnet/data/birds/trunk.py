"""The shapes of the trunk: back, belly, wing, tail and legs, with their variants.

Frame: `bird` (see `shape`).
"""

from pixpnet.data.birds.curves import Points, closed_curve, ellipse, path, ribbon
from pixpnet.data.birds.shape import Shape, ordered

HIP = (0.06, 0.26)
TAIL_BASE = (-0.40, 0.10)
SHOULDER = (0.20, -0.10)
SOLES = 0.64
"""How far below the middle of the trunk the feet stand."""

_BACK = path("22,-50 10,-37 -10,-24 -30,-6 -47,10")
_FRONT = path("-49,20 -36,26 -16,36 8,40 30,33 46,15 53.5,-6 54.5,-24 50,-38")


def back() -> tuple[Shape, ...]:
    """The whole trunk, of which the belly and the wing leave the back."""
    ticks = [
        ribbon([(x, y), (x - 0.05, y + 0.035), (x - 0.10, y + 0.045)], [0.0, 0.016, 0.0])
        for x, y in path("13,-30 5,-25 -3,-21.5 -12,-15 -20,-9")
    ]
    return ordered(
        "back",
        "trunk",
        ("mantle", closed_curve([*_BACK, *_FRONT])),
        *(("mantle_dark", tick) for tick in ticks),
    )


def belly(variant: str) -> tuple[Shape, ...]:
    """Breast and belly, which show below the wing."""
    outline = closed_curve([*_FRONT[:-1], *path("44,-26 30,-10 14,8 -12,13 -34,15")])
    fluff = [
        ribbon([(x, y), (x - 0.03, y + 0.03), (x - 0.08, y + 0.035)], [0.0, 0.014, 0.0])
        for x, y in path("24,19 10,27 -6,26 36,5 -20,26")
    ]
    streaks = [
        ribbon(
            [(x + 0.022, y - 0.058), (x + 0.004, y), (x - 0.022, y + 0.058)], [0.0, 0.032, 0.052, 0.05, 0.0]
        )
        for x, y in path(
            "46,5 37,10 41,20 28,12 31,25 20,20 21,32 10,24 9,34.5 0,29 -9,25 -10,33.5 -19,28 -29,23.5"
        )
    ]
    bands = [
        ribbon(points, [0.012, 0.052, 0.052, 0.012])
        for points in (
            path("33,2 41,4.5 51.5,3"),
            path("24,12 35,15.5 46,14"),
            path("13,18 25,25.5 38,25"),
            path("1,19 12,31.5 26,34.5"),
            path("-12,19 -4,30 8,38.5"),
            path("-24,17 -19,26 -11,35.5"),
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
    whole = closed_curve(path("25,-11 17,-21 0,-20 -22,-7 -42,8 -60,22 -60,22 -40,21 -16,20 6,17 20,5"))
    coverts = closed_curve(path("25,-11 17,-21 2,-20 -14,-11 -19,-3 -13,5 -2,11 10,12 20,4"))
    quills: list[Points] = [
        path("-14,-5 -34,8 -56,20.5"),
        path("-12,2 -30,12 -50,20"),
        path("-7,8 -24,16 -40,19.5"),
        path("0,12 -12,16.5 -24,19"),
    ]
    scallops: list[Points] = [
        path("10,-17 5,-10 8,-3 16,0"),
        path("0,-16 -5,-8 -2,1 7,5"),
    ]
    bars: list[Points] = [
        path("7.5,-18.5 2,-9 5,2 13,7"),
        path("-10,-12 -16.5,-3 -10,7 -1,12"),
    ]
    spots = path("13,-12 10,2 1,-9 -2,6 -10,-3 -14,10 -23,3 -28,14.5 -37,12")
    marks = {
        "plain": (),
        "bars": tuple(("pale", ribbon(bar, [0.035, 0.062, 0.062, 0.03])) for bar in bars),
        "spots": tuple(("pale", ellipse(spot, (0.034, 0.030), -30.0, vertices=14)) for spot in spots),
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
            path("-32,6 -52,12 -78,16 -108,10"),
            path("-32,16 -52,22 -74,34 -96,50"),
        ]
        return ordered(
            "tail",
            "tail",
            *(("tail", ribbon(prong, [0.18, 0.17, 0.12, 0.0])) for prong in prongs),
            *(("tail_dark", ribbon(prong[1:], [0.0, 0.02, 0.0])) for prong in prongs),
        )
    if variant == "fan":
        vane = closed_curve(path("-30,2 -56,6 -86,6 -95,16 -96,30 -90,43 -80,50 -55,34 -32,24"))
        band = ribbon(path("-85,7.5 -89.5,18 -89,30 -80,46.5"), [0.05, 0.075, 0.075, 0.04])
        rays: list[Points] = [
            path("-44,11 -64,14 -84,15"),
            path("-44,16 -62,22 -84,28"),
            path("-44,20 -60,29 -79,40"),
        ]
        feathers = (("tail_dark", ribbon(ray, [0.0, 0.02, 0.016])) for ray in rays)
        return ordered("tail", "tail", ("tail", vane), *feathers, ("pale", band))
    stub = closed_curve(path("-32,4 -52,6 -80,13 -80,13 -78,30 -78,30 -52,28 -34,24"))
    return ordered(
        "tail", "tail", ("tail", stub), ("tail_dark", ribbon([(-0.45, 0.15), (-0.69, 0.24)], [0.0, 0.02]))
    )


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
        "trousers": (
            (
                "under",
                closed_curve(
                    [
                        (x - 0.09, 0.30),
                        (x + 0.09, 0.30),
                        (x + 0.068, 0.46),
                        (x + 0.035, 0.575),
                        (x - 0.05, 0.575),
                        (x - 0.085, 0.46),
                    ]
                ),
            ),
        ),
        "rings": tuple(
            (
                "pale" if row % 2 == 0 else "dark",
                ribbon([(x - 0.008, y), (x - 0.008, y + 0.055)], [0.078, 0.078], 1),
            )
            for row, y in enumerate((0.375, 0.43, 0.485, 0.54))
        ),
    }[variant]
    return ordered("leg", "leg", (tone, shank), *((tone, toe) for toe in toes), *marks)
