"""Images that a vendor builds: their rows, what they can be told, and which of their names a lock takes."""

from __future__ import annotations

import pytest

from servingstack.engines import facts
from servingstack.engines.vendor_images import (
    as_variables,
    engines_of,
    is_release,
    undeliverable,
    vendor_image,
)
from servingstack.plan import Flag

ROW = vendor_image("vllm", "sagemaker")
assert ROW is not None
AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"


def test_the_row_names_one_release_and_its_own_flags_are_of_that_release() -> None:
    assert ROW is not None
    assert ROW.version in ROW.tag
    known = facts.flags(ROW.engine, ROW.version)
    assert {ROW.middleware_flag, *ROW.own_flags} <= set(known)
    assert engines_of("sagemaker") == ("vllm",)
    assert vendor_image("vllm", "nowhere") is None
    assert ROW.source
    assert ROW.date


def test_a_flag_becomes_a_variable_and_a_switch_is_true() -> None:
    assert ROW is not None
    flags = [Flag(name="max-model-len", value="4096"), Flag(name="enable-chunked-prefill")]
    assert as_variables(ROW, flags) == {
        "SM_VLLM_MAX_MODEL_LEN": "4096",
        "SM_VLLM_ENABLE_CHUNKED_PREFILL": "true",
    }
    assert as_variables(ROW, [Flag(name="port", value="9000")]) == {}, "the image sets it itself"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([Flag(name="no-such-flag", value="1")], "no flag of vllm 0.27.1"),
        ([Flag(name="seed", value="1"), Flag(name="seed", value="2")], "given twice"),
    ],
)
def test_what_the_image_cannot_be_told_is_said(flags: list[Flag], said: str) -> None:
    assert ROW is not None
    (sentence,) = undeliverable(ROW, flags)
    assert said in sentence


def test_what_it_can_be_told_is_not_complained_of() -> None:
    assert ROW is not None
    assert undeliverable(ROW, [Flag(name="seed", value="1"), Flag(name="enable-prefix-caching")]) == []


def test_a_full_release_in_a_registry_is_known_and_nothing_that_only_looks_like_it() -> None:
    """A lock takes a vendor's release by its tag, since its digest needs an account to be read."""
    assert ROW is not None
    name = f"{ROW.repository}:{ROW.tag}"
    assert is_release(f"{AWS}/{name}")
    for image in (
        name,
        f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{name}",
        f"{AWS}.evil.example/{name}",
        f"{AWS}/{name}.1",
        f"{AWS}/other/{name}",
        f"{AWS}/{ROW.repository}:latest",
    ):
        assert not is_release(image), image
