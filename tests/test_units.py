"""Durations, sizes, counts and GPU names are parsed once, exactly, and a bare number is never guessed at."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servingstack.units import (
    exact_size,
    format_duration,
    format_size,
    parse_count,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("1.5s", 1.5), (" 30S ", 30)],
)
def test_a_duration_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value", [30, 30.0, "30", "", "abc", "5 minutes", "30s!", "-3s", "0s", True, None, [], "1s 2"]
)
def test_a_duration_without_a_unit_is_refused_because_seconds_and_milliseconds_look_alike(
    value: object,
) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-1s", "above zero | Give a positive duration"),
        ("-1h30m", "above zero | Give a positive duration"),
        (timedelta(seconds=-1), "above zero | Give a positive duration"),
        ("0s", "above zero | Give a positive duration"),
        (-5, "with a unit.* | Give a positive number with its unit"),
        ("30", "with a unit.* | Write the unit"),
        ("soon", "with a unit.* | Write a number and its unit"),
    ],
)
def test_the_fix_of_a_duration_says_what_is_wrong_with_it(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("|", r"\|")):
        parse_duration(value)


def test_a_negative_size_is_told_to_be_positive_and_a_bare_one_to_have_a_unit() -> None:
    for value, fix in (
        ("-1Gi", "Give a positive number"),
        (60, "Write the unit"),
        ("much", "Write a number and"),
    ):
        with pytest.raises(ValueError, match=fix):
            parse_size(value)


@pytest.mark.parametrize("text", ["99999999999999d", "366d", "9" * 400 + "s"])
def test_a_duration_too_long_to_mean_anything_is_refused_and_no_overflow(text: str) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration(text)


@given(st.integers(min_value=1, max_value=365 * 86400 * 10**6))
def test_every_duration_is_read_back_exactly(microseconds: int) -> None:
    duration = timedelta(microseconds=microseconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60Gi", 60 * 1024**3),
        ("80GB", 80 * 10**9),
        ("64MiB", 64 * 1024**2),
        ("1.5Gi", 3 * 512 * 1024**2),
        ("7B", 7),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("value", [60, "60", "", "sixty", "60Xi", "-1Gi", True, None])
def test_a_size_without_a_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a size with a unit"):
        parse_size(value)


@given(st.integers(min_value=1, max_value=10**15 - 1))
def test_every_size_is_read_back_exactly(size: int) -> None:
    assert parse_size(exact_size(size)) == size


def test_parameters_are_counted_in_the_units_people_write() -> None:
    assert parse_count("8B") == 8e9
    assert parse_count("0.5b") == 0.5e9
    assert parse_count("671B") == 671e9
    assert parse_count(8_000_000_000) == 8e9


@pytest.mark.parametrize("value", ["eight", "8Q", True, None, [], 10**400])
def test_what_is_no_count_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a number"):
        parse_count(value)


def test_sizes_are_printed_as_people_read_them() -> None:
    assert format_size(64 * 10**9) == "59.6 GiB"
    assert format_size(0) == "0 B"
