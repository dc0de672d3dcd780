"""The README's Python uses names that exist, in code that parses."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pixpnet as px
from pixpnet.metrics.auditing.localization import THRESHOLD

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_python_of_the_readme_parses_and_every_public_name_in_it_exists() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "px":
                assert hasattr(px, node.attr), node.attr


def test_the_configuration_of_the_readme_can_be_made() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    (made,) = [
        node
        for node in ast.parse(block).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "config"
    ]
    config = eval(ast.unparse(made.value), {"px": px})
    assert (config.backbone, config.at, config.optimization.epochs) == ("resnet18", "layer4", 16)
    assert (config.size, config.window, config.window_stride, config.window_from) == (384, 72, 40, "layer1")


def test_what_the_readme_recommends_sees_parts_by_the_audits_own_measure() -> None:
    (line,) = [line for line in README.splitlines() if line.startswith("pixpnet train --preset frozen")]
    words = dict(pairwise(line.split()))
    size, window = int(words["--size"]), int(words["--window"])
    # The largest field of a cell, by hand: its window and the margin that resnet18 up to layer1 sees beside it (each
    # cell of layer1 sees 43 pixels and stands for 4).
    assert ((window + 43 - 4) / size) ** 2 < THRESHOLD
