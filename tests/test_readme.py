"""The README's Python uses names that exist, in code that parses."""

import ast
import re
from pathlib import Path

import pytest
import yaml

import pixpnet as px
from pixpnet.cli import main
from pixpnet.metrics.auditing.localization import THRESHOLD

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


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


def test_what_the_readme_recommends_sees_parts_by_the_audits_own_measure(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.partition("#")[0].split() for line in README.splitlines()]
    (words,) = [line for line in lines if line[:2] == ["pixpnet", "train"] and "--data" in line]
    with pytest.raises(SystemExit):
        main([*words[1:], "--print-config"])
    config = yaml.safe_load(capsys.readouterr().out)
    assert (config["backbone"], config["at"], config["window_from"]) == ("resnet18", "layer4", "layer1")
    # The largest field of a cell, by hand: its window and the margin that resnet18 up to layer1 sees beside it (each
    # cell of layer1 sees 43 pixels and stands for 4).
    largest = ((config["window"] + 43 - 4) / config["size"]) ** 2
    assert largest <= 0.09
    assert largest < THRESHOLD
    # And the tutorial has no other options.
    tutorial = (ROOT / "docs" / "tutorials" / "own-photos.md").read_text()
    assert "\npixpnet train --data folder:photos --weights imagenet --out runs/photos\n" in tutorial


def test_the_readme_is_five_screens_and_names_files_that_exist() -> None:
    # A screen is about 50 lines of 100 characters; pictures count as 15 lines, which is how high they are shown.
    lines = sum(15 if line.startswith("![") else max(1, -(-len(line) // 100)) for line in README.splitlines())
    assert lines <= 250
    links = re.findall(r"\]\(([^)#]+)", README)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_one_screen_of_the_readme_leads_to_the_first_result() -> None:
    above = README[: README.index("make demo")]
    assert len(above.splitlines()) <= 20
