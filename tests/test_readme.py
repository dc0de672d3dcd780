"""The README's Python uses names that exist, in code that parses."""

import ast
import re
from pathlib import Path

import pixpnet as px

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
    assert (config.backbone, config.at, config.optimisation.epochs) == ("resnet18", "layer3", 12)
