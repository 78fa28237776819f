"""What the tests of every option ask of a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from servingstack.errors import InvalidInput
from servingstack.plan import ServingPlan
from servingstack.planner import plan


def merged(base: Any, change: Any) -> Any:
    """Objects are merged, everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def codes(found: ServingPlan) -> set[str]:
    """Of its warnings."""
    return {warning.code for warning in found.warnings}


def refused(given: dict[str, Any]) -> dict[str, str]:
    """Violations by path."""
    with pytest.raises(InvalidInput) as caught:
        plan(given)
    return {each.path: f"{each.allowed}. {each.fix}" for each in caught.value.violations}


def golden_text(found: ServingPlan, *without: str) -> str:
    """A plan as a golden file has it, but for what moves with each release, and for the parts that have tests
    of their own."""
    left_out = {"library_version", "args_key", *without}
    shown = found.model_dump(mode="json", exclude=left_out, exclude_none=True)
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"
