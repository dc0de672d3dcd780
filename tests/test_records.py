"""Records to plain values and back: nothing is lost, and what does not fit is named."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.box import Box
from pixpnet.config import NumWorkers, RunConfig, TrainerOptions, config_from_plain, plain_config
from pixpnet.members.pixpnet import Architecture, Losses, PixPNetConfig
from pixpnet.records import ADDED_LATER, BadRecord, added_later, from_plain, to_plain
from pixpnet.settings import Optimization, Replacement


@dataclass(frozen=True)
class Inner:
    """Every kind of field that a record has."""

    whole: int
    number: float
    text: str
    yes: bool
    choice: Literal["one", "two"]


@dataclass(frozen=True)
class Outer:
    """Records in records, in lists, and values that may be missing."""

    inner: Inner
    several: tuple[Inner, ...]
    pair: tuple[int, str]
    box: Box
    boxes: tuple[Box, ...] | None
    maybe: int | None = None
    names: tuple[str, ...] = field(default=())


numbers = st.floats(allow_nan=False, allow_infinity=False)
boxes = st.builds(Box, *[st.integers(-(10**6), 10**6)] * 4)
inners = st.builds(Inner, st.integers(), numbers, st.text(), st.booleans(), st.sampled_from(["one", "two"]))
outers = st.builds(
    Outer,
    inners,
    st.lists(inners, max_size=3).map(tuple),
    st.tuples(st.integers(), st.text()),
    boxes,
    st.none() | st.lists(boxes, max_size=3).map(tuple),
    st.none() | st.integers(),
    st.lists(st.text(), max_size=3).map(tuple),
)
GOOD = Outer(Inner(1, 0.5, "a", True, "two"), (), (1, "b"), Box(0, 1, 2, 3), None)


@given(outers)
def test_a_record_comes_back_from_plain_values(record: Outer) -> None:
    assert from_plain(Outer, to_plain(record)) == record


@given(outers)
def test_a_record_comes_back_from_json(record: Outer) -> None:
    back = from_plain(Outer, json.loads(json.dumps(to_plain(record))))
    assert back == record
    assert isinstance(back.box, Box)
    assert type(back.inner.number) is float


def test_plain_values_are_what_json_and_yaml_hold() -> None:
    assert to_plain(GOOD) == {
        "inner": {"whole": 1, "number": 0.5, "text": "a", "yes": True, "choice": "two"},
        "several": [],
        "pair": [1, "b"],
        "box": [0, 1, 2, 3],
        "boxes": None,
        "maybe": None,
        "names": [],
    }


def test_a_whole_number_is_a_number_but_not_the_other_way_round() -> None:
    values = to_plain(GOOD.inner)
    assert from_plain(Inner, {**values, "number": 3}).number == 3.0
    with pytest.raises(BadRecord, match=r"^Inner\.whole: expected a value of type int, got 3\.0$"):
        from_plain(Inner, {**values, "whole": 3.0})


def plain() -> dict[str, Any]:
    """With something in every list."""
    several = replace(GOOD, several=(GOOD.inner, GOOD.inner), boxes=(GOOD.box,), names=("x", "y"))
    values = to_plain(several)
    assert isinstance(values, dict)
    return values


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("inner", "whole"), True, r"card\.inner\.whole: expected a value of type int, got True"),
        (("inner", "whole"), None, r"card\.inner\.whole: .*got None"),
        (("inner", "number"), float("nan"), r"card\.inner\.number: expected a finite float, got nan"),
        (("inner", "number"), float("inf"), r"card\.inner\.number: expected a finite float, got inf"),
        (("inner", "number"), 10**400, r"card\.inner\.number: expected a finite float, got 1000"),
        (("inner", "number"), False, r"card\.inner\.number: expected a finite float, got False"),
        (("inner", "number"), "1.0", r"card\.inner\.number: expected a finite float, got '1\.0'"),
        (("inner", "text"), 1, r"card\.inner\.text: expected a value of type str, got 1"),
        (("inner", "yes"), 1, r"card\.inner\.yes: expected a value of type bool, got 1"),
        (("inner", "choice"), "three", r"card\.inner\.choice: expected one of 'one', 'two', got 'three'"),
        (("inner", "choice"), ["one"], r"card\.inner\.choice: expected one of"),
        (("inner", "choice"), None, r"card\.inner\.choice: expected one of"),
        (("inner",), [], r"card\.inner: expected the fields whole, number, text, yes, choice, got \[\]"),
        (("several",), "ab", r"card\.several: expected a list, got 'ab'"),
        (("several",), {}, r"card\.several: expected a list"),
        (("several", 1, "text"), None, r"card\.several\[1\]\.text: "),
        (("pair",), [1], r"card\.pair: expected 2 values, got \[1\]"),
        (("pair", 1), 2, r"card\.pair\[1\]: expected a value of type str"),
        (("box",), [0, 1, 2], r"card\.box: expected 4 values"),
        (("box", 3), 2.5, r"card\.box\[3\]: expected a value of type int"),
        (("boxes", 0, 0), "0", r"card\.boxes\[0\]\[0\]: "),
        (("maybe",), "1", r"card\.maybe: expected a value of type int, got '1'"),
        (("names", 1), 5, r"card\.names\[1\]: expected a value of type str"),
    ],
)
def test_an_error_names_the_field_what_came_and_what_was_expected(
    path: tuple[Any, ...], value: object, message: str
) -> None:
    values = plain()
    record: Any = values
    for step in path[:-1]:
        record = record[step]
    record[path[-1]] = value
    with pytest.raises(BadRecord, match=f"^{message}"):
        from_plain(Outer, values, "card")


@pytest.mark.parametrize("name", [f.name for f in fields(Outer)])
def test_every_field_must_be_there_also_one_with_a_default(name: str) -> None:
    values = plain()
    del values[name]
    with pytest.raises(BadRecord, match=rf"^Outer: expected the fields .*{name}"):
        from_plain(Outer, values)


def test_a_field_that_nobody_knows_is_shown() -> None:
    with pytest.raises(BadRecord, match=r"^Outer: .*'surprise'"):
        from_plain(Outer, {**plain(), "surprise": 1})


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(BadRecord) as caught:
        from_plain(Outer, "x" * 10**6)
    assert len(str(caught.value)) < 400


def test_what_the_record_itself_refuses_is_named_too() -> None:
    with pytest.raises(BadRecord, match=r"^settings\.architecture: dim is above 0, got -1$"):
        values = to_plain(PixPNetConfig()) | {"architecture": to_plain(Architecture()) | {"dim": -1}}
        from_plain(PixPNetConfig, values, "settings")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(junk)
def test_values_that_are_no_record_are_refused(value: object) -> None:
    with pytest.raises(BadRecord):
        from_plain(Outer, value)


@given(st.data())
def test_whatever_stands_in_a_field_it_is_read_or_refused_by_name(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([f.name for f in fields(Outer)]))
    values = plain() | {name: data.draw(junk)}
    try:
        assert isinstance(from_plain(Outer, values), Outer)
    except BadRecord as error:
        assert str(error).startswith(f"Outer.{name}")


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values that a field of settings may have by its type; most are above zero, as most must be."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(1, 500),
        float: st.floats(1e-12, 0.999),
        str: st.text(),
        int | None: st.none() | st.integers(1, 1000),
        NumWorkers: st.just("auto") | st.integers(0, 512),
        str | None: st.none() | st.text(),
        tuple[str, ...]: st.lists(st.text(), max_size=3).map(tuple),
    }
    return kinds[hint]


def records_of(kind: Callable[..., Any], **given_values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.fixed_dictionaries(
        {name: given_values[name] if name in given_values else values_of(hint) for name, hint in hints.items()}
    ).map(lambda values: partial(kind, **values))


def made(value: Any) -> Any:
    """The record, made in the test: beartype looks at random items of tuples, and strategies must not be random."""
    return value.func(**{name: made(inner) for name, inner in value.keywords.items()}) if callable(value) else value


def with_commas(numbers: list[float]) -> str:
    return ",".join(map(str, numbers))


configurations = records_of(
    RunConfig,
    member=st.just("pixpnet"),
    window=st.floats(0.1, 0.9) | st.lists(st.integers(1, 400), min_size=2, max_size=3).map(with_commas),
    window_stride=st.none() | st.floats(1, 90) | st.lists(st.floats(1, 90), min_size=2, max_size=3).map(with_commas),
    settings=records_of(
        PixPNetConfig,
        # Regions have a price only where some of the prototypes speak.
        architecture=records_of(
            Architecture, prototypes_per_class=st.just(9), terms_per_class=st.just(None), field_price=st.just(0.0)
        )
        | records_of(
            Architecture, prototypes_per_class=st.just(9), terms_per_class=st.integers(1, 8), head=st.just("class_sum")
        ),
        losses=records_of(Losses),
        optimization=records_of(Optimization, warm_up_epochs=st.just(0), frozen=st.just("")),
        replacement=records_of(Replacement),
        frame=st.sampled_from([None, "crop", "stretch", "pad"]),
    ),
    trainer=records_of(TrainerOptions),
)


@given(configurations)
def test_every_configuration_comes_back_from_json_and_yaml(making: "partial[RunConfig]") -> None:
    config = made(making)
    assert config_from_plain(json.loads(json.dumps(plain_config(config)))) == config
    assert config_from_plain(yaml.safe_load(yaml.safe_dump(plain_config(config)))) == config


def test_for_all_versions_only_what_was_added_later_and_says_nothing_is_left_out() -> None:
    @dataclass(frozen=True)
    class Grown:
        old: int = 1
        new: int = field(default=2, metadata=ADDED_LATER)

    assert to_plain((Grown(), Grown(1, 3)), for_all=True) == [{"old": 1}, {"old": 1, "new": 3}]
    assert to_plain(Grown()) == {"old": 1, "new": 2}
    assert from_plain(Grown, {"old": 1}) == Grown()


def test_a_field_whose_default_is_new_says_what_its_absence_means() -> None:
    @dataclass(frozen=True)
    class Grown:
        rule: str = field(default="new", metadata=added_later(absent="old"))

    assert from_plain(Grown, {}) == Grown("old")
    assert from_plain(Grown, {"rule": "new"}) == Grown()
    assert to_plain((Grown(), Grown("old")), for_all=True) == [{"rule": "new"}, {}]
