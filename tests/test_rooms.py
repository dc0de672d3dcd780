"""Parts answer for themselves: outside `parts/` and `members/` nobody asks what kind of part or member there is.

What is looked for in the source, not in docstrings, messages or help: `isinstance`, `issubclass` and `match` on classes
of `pixpnet.parts`; comparisons with names of parts or members; dictionaries and sets of such names. Abstract classes
are allowed (`isinstance(module, Comparison)` says that it is a comparison, not which one), and so is a word that only
happens to be the name of a part where `_OTHER_MEANINGS` says what else it means there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pixpnet
from pixpnet import parts
from pixpnet.family import MEMBERS, member_named
from pixpnet.parts import Comparison, Decision, LinearDecision, Measure, Ownership, Pooling, Similarity

SOURCE = Path(pixpnet.__file__).parent
KINDS = (Comparison, Decision, Measure, Ownership, Pooling, Similarity)
# Where parts are made and members are listed.
FREE = ("parts", "members", "family.py")
_OTHER_MEANINGS: dict[str, set[str]] = {
    # The package, in the names of its modules.
    "cli.py": {"pixpnet"},
    "commands/calling.py": {"pixpnet"},
    "views/reporting.py": {"pixpnet"},
    # Methods of the search.
    "commands/goldilocks_text.py": {"pixpnet", "frozen"},
    # Drawn birds have plain heads and trunks.
    "data/birds/head.py": {"plain"},
    "data/birds/trunk.py": {"plain"},
    # Layers of a backbone that do not learn.
    "training/features.py": {"frozen"},
}


def concrete_kinds() -> set[str]:
    """The classes of parts of which there are, or may be, several."""
    result: set[str] = set()
    waiting = list(KINDS)
    while waiting:
        kind = waiting.pop()
        result |= {
            explained.__name__ for explained in kind.__subclasses__() if explained.__module__.startswith("pixpnet.")
        }
        waiting += kind.__subclasses__()
    return result - {LinearDecision.__name__}


def names_of_parts() -> set[str]:
    """The words by which configurations name parts and members: all choices of architectures, and what parts say."""
    words = set(MEMBERS)
    for name in MEMBERS:
        member = member_named(name)
        for hint in member.architecture.__annotations__.values():
            words |= {choice for choice in getattr(hint, "__args__", ()) if isinstance(choice, str)}
    for item in vars(parts).values():
        if isinstance(item, type) and isinstance(getattr(item, "name", None), str):
            words.add(item.name)
    return words


def offences(source: str, kinds: set[str], words: set[str]) -> Iterator[tuple[int, str]]:
    """Lines of a source file that ask what kind of part or member there is."""
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            yield from ((line, f"{node.func.id} on {name}") for name in _classes_in(node.args[1]) & kinds)
        elif isinstance(node, ast.MatchClass):
            yield from ((line, f"match on {name}") for name in _classes_in(node.cls) & kinds)
        elif isinstance(node, ast.MatchValue):
            yield from ((line, f"match on {word!r}") for word in _words_in(node.value) & words)
        elif isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
            yield from ((line, f"compared with {word!r}") for item in compared for word in _words_in(item) & words)
            if any(_is_type_of(item) for item in compared):
                yield from ((line, f"type compared with {n}") for item in compared for n in _classes_in(item) & kinds)
        elif isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            yield from ((line, f"table with {word!r}") for key in keys for word in _words_in(key) & words)
            yield from ((line, f"table with {name}") for key in keys for name in _classes_in(key) & kinds)
        elif isinstance(node, ast.Set):
            yield from ((line, f"set with {word!r}") for word in _words_in(node) & words)


def _words_in(node: ast.AST) -> set[str]:
    """String constants, alone or in a tuple, list or set."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return {word for item in node.elts for word in _words_in(item)}
    return set()


def _classes_in(node: ast.AST) -> set[str]:
    """Names, also behind a module and in tuples and unions."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, (ast.Tuple, ast.List)):
        return {name for item in node.elts for name in _classes_in(item)}
    if isinstance(node, ast.BinOp):
        return _classes_in(node.left) | _classes_in(node.right)
    return set()


def _is_type_of(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"


def imports_parts(source: str) -> bool:
    """Whether a class name in this file may be that of a part: torch has a Linear, too."""
    modules = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return any(module.startswith("pixpnet.parts") for module in modules) or "parts." in source


def test_nobody_outside_parts_and_members_asks_what_kind_of_part_or_member_there_is() -> None:
    kinds, words = concrete_kinds(), names_of_parts()
    result = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        if name.parts[0] in FREE:
            continue
        source = path.read_text(encoding="utf-8")
        allowed = _OTHER_MEANINGS.get(str(name), set())
        asked = offences(source, kinds if imports_parts(source) else set(), words - allowed)
        result += [f"{name}:{line}: {offence}" for line, offence in asked]
    assert not result, "ask the part instead:\n" + "\n".join(result)


def test_the_names_that_are_looked_for_are_those_of_today() -> None:
    assert {"Cosine", "SquaredL2", "ClassSum", "Linear", "OwnClass", "Nearest", "Distinct"} <= concrete_kinds()
    assert {"Reformulated", "Original", "OneClassEach"} <= concrete_kinds()
    assert not {kind.__name__ for kind in KINDS} & concrete_kinds()
    assert {"cosine", "squared_l2", "class_sum", "own_class", "reformulated", "xavier", "protopnet"} <= names_of_parts()


@pytest.mark.parametrize(
    "source",
    [
        'if architecture.head == "class_sum": pass',
        'if name in ("cosine", "other"): pass',
        'if "squared_l2" != distance: pass',
        'SIZES = {"own_class": 1}',
        'LEARNING = frozenset({"own_class", "x"})',
        'match member:\n    case "protopnet": pass',
        "isinstance(head, ClassSum)",
        "isinstance(head, (int, parts.OwnClass))",
        "isinstance(head, Linear | OwnClass)",
        "type(measure) is Cosine",
        "TOLERANCES = {Cosine: 1}",
        "match head:\n    case ClassSum(): pass",
    ],
)
def test_questions_about_kinds_are_found(source: str) -> None:
    assert list(offences(source, concrete_kinds(), names_of_parts()))


@pytest.mark.parametrize(
    "source",
    [
        '"""A class_sum or a linear head."""',
        'raise ValueError("take --architecture.head class_sum")',
        "isinstance(head, Decision)",
        'parser.add_argument("--method", help="cosine")',
        'if mode == "train": pass',
        "torch.nn.Linear(3, 4)",
    ],
)
def test_other_sentences_are_not(source: str) -> None:
    assert not list(offences(source, concrete_kinds(), names_of_parts()))
