"""What is handed on: read in one way on every option."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from servingstack.errors import InvalidInput
from servingstack.targets.existing import nothing, parse


@dataclass(frozen=True)
class Ids:
    network: str | None = None


@dataclass(frozen=True)
class Empty:
    pass


def paths(found: InvalidInput) -> list[str]:
    return [each.path for each in found.violations]


def test_a_mapping_and_the_options_own_class_mean_the_same() -> None:
    assert parse(Ids, {"network": "n"}, "{}") == parse(Ids, Ids("n"), "{}") == Ids("n")
    assert parse(Ids, None, "{}") == Ids()


def test_every_misspelt_field_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(Ids, {"netwrok": "n", "zone": "z"}, "{}")
    assert paths(caught.value) == ["existing.netwrok", "existing.zone"]
    assert "`network`" in caught.value.violations[0].fix


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"token": "t", "id": "i"}, ["existing.token", "existing.id"]),
        ("token", ["existing"]),
        ([], ["existing"]),
    ],
)
def test_an_option_that_is_handed_nothing_refuses_whatever_comes(given: object, told: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        nothing(Empty, given, "tokens come from the environment")  # pyright: ignore[reportArgumentType]
    assert paths(caught.value) == told
    assert nothing(Empty, None, "") == nothing(Empty, {}, "") == Empty()
