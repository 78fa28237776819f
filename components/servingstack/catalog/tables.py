"""Reading the shipped tables.

Trap: this runs at plan time for every user, so it is the standard library's csv and nothing else, and it
reads a table when it is first asked for, not at import.
"""

from __future__ import annotations

import csv
import pkgutil
from functools import cache

Row = dict[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """All rows of `data/<name>.csv`, cells as text."""
    # pkgutil, since importlib.resources alone costs more to import than all tables cost to read.
    data = pkgutil.get_data("servingstack.catalog", f"data/{name}.csv")
    if data is None:
        raise FileNotFoundError(f"servingstack.catalog has no table {name!r}; the installation is incomplete")
    header, *rows = csv.reader(data.decode().splitlines())
    return tuple(dict(zip(header, row, strict=True)) for row in rows)


@cache
def sources() -> dict[str, Row]:
    """The sources that rows name by key, so that a long address is not repeated on each row."""
    return {row["key"]: row for row in table("sources")}


def cited(key: str) -> str:
    """The text of a source; a KeyError here is a fault in the data, which a test catches."""
    return sources()[key]["text"]


def optional_float(cell: str) -> float | None:
    return float(cell) if cell else None


def optional_int(cell: str) -> int | None:
    return int(cell) if cell else None


def flag(cell: str) -> bool:
    if cell not in ("yes", "no"):
        raise ValueError(f"expected yes or no, not {cell!r}")
    return cell == "yes"
