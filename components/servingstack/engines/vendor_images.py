"""Images of an engine that a cloud's vendor builds, for services that run an image only by their own rules.

Such a service hands a container no arguments: the image turns environment variables into flags. How it does
that is a property of the image, so its rows (`data/vendor_images.json`) say it, and a target knows the
family's name alone.

Trap: the same engine at another release takes other flags. Each row's release has its own data file of flags,
read out of that release's wheel, and what a plan would send is checked against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from servingstack.engines import facts
from servingstack.plan import Flag


@dataclass(frozen=True)
class VendorImage:
    """One row: an engine in one family."""

    engine: str
    family: str
    account: str
    """Holds the images in every region of the catalog (aws.github.io/deep-learning-containers/vllm; other
    regions have accounts of their own: sagemaker-python-sdk, image_uri_config/pytorch.json)."""
    repository: str
    """Below the vendor's registry of a region."""
    tag: str
    """The release with its patch level: no tag of it moves."""
    version: str
    """The engine's release inside."""
    prefix: str
    """Of the variables that become flags: `max-model-len` is `<prefix>MAX_MODEL_LEN`."""
    model_flag: str
    """The flag that names the model, which the engine's own command has as a positional argument."""
    middleware_flag: str
    """The flag that puts an ASGI middleware around the server."""
    own_flags: frozenset[str]
    """Flags that the image sets itself."""
    cuda_driver: int
    """Lowest branch of the NVIDIA driver."""
    date: str
    source: str


@cache
def _rows() -> dict[tuple[str, str], VendorImage]:
    path = resources.files("servingstack.engines").joinpath("data", "vendor_images.json")
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    found: list[VendorImage] = []
    for row in rows:
        fields: dict[str, Any] = {**row, "own_flags": frozenset(row["own_flags"])}
        found.append(VendorImage(**fields))
    return {(row.engine, row.family): row for row in found}


def vendor_image(engine: str, family: str) -> VendorImage | None:
    """The row of an engine in a family; None where the vendor builds none."""
    return _rows().get((engine, family))


def is_release(image: str) -> bool:
    """Whether an image is a row's, by its full tag. Nobody without an account of that cloud can read its
    digest, and the vendor moves no such tag."""
    return any(
        re.fullmatch(rf"{row.account}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com", image.partition("/")[0])
        and image.partition("/")[2] == f"{row.repository}:{row.tag}"
        for row in _rows().values()
    )


def engines_of(family: str) -> tuple[str, ...]:
    """Engines that a family has."""
    return tuple(row.engine for row in _rows().values() if row.family == family)


def as_variables(row: VendorImage, flags: Iterable[Flag]) -> dict[str, str]:
    """Flags as the variables that the image reads. Those it sets itself are left out."""
    return {
        f"{row.prefix}{flag.name.upper().replace('-', '_')}": "true" if flag.value is None else flag.value
        for flag in flags
        if flag.name not in row.own_flags
    }


def undeliverable(row: VendorImage, flags: Iterable[Flag]) -> list[str]:
    """Why the image could not be told a flag, as sentences. Empty if it can be told them all."""
    wrong: list[str] = []
    seen: set[str] = set()
    known = facts.flags(row.engine, row.version)
    for flag in flags:
        name = flag.name.removeprefix("no-")
        if flag.name not in known and not (name in known and known[name].kind == "bool"):
            wrong.append(f"--{flag.name} is no flag of {row.engine} {row.version}, which the image holds")
        elif flag.name in seen:
            wrong.append(f"--{flag.name} is given twice, and a variable has one value")
        elif flag.value is not None and (reason := _unsendable(flag.value)):
            wrong.append(f"--{flag.name} {reason}")
        seen.add(flag.name)
    return wrong


def _unsendable(value: str) -> str:
    """What the image would read a value as, where that is not the value."""
    if value.strip().lower() in ("true", "false"):
        return f"has the value {value!r}, which the image reads as a switch"
    if not value or "\n" in value or "\r" in value:
        return "has a value that is empty or has several lines"
    if value.strip().startswith("[") and value.strip().endswith("]"):
        return "has a JSON list, which releases of the image read differently"
    return ""
