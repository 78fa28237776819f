"""What every engine is held to that batches token by token: one contract, the releases' own data as judge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from types import ModuleType

import pytest
from pydantic import ValidationError

from servingstack.engines import facts, sglang_signals, vllm_signals
from servingstack.engines.limits import TokenLimits
from servingstack.engines.sglang import SglangSettings
from servingstack.engines.signal import le
from servingstack.engines.token_settings import TokenSettings
from servingstack.engines.vllm import VllmSettings


@dataclass(frozen=True)
class Case:
    settings: type[TokenSettings]
    signals: ModuleType

    @property
    def limits(self) -> TokenLimits:
        return self.settings.limits

    @property
    def release(self) -> tuple[str, str]:
        """Engine and version, as data files are called."""
        return self.settings.extras.engine, self.settings.extras.version


CASES = {"vllm": Case(VllmSettings, vllm_signals), "sglang": Case(SglangSettings, sglang_signals)}
every_engine = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_engine
@pytest.mark.parametrize("what", ["flags", "metrics", "quantization"])
def test_the_data_is_of_the_pinned_release(case: Case, what: str) -> None:
    engine, version = case.release
    path = resources.files("servingstack.engines").joinpath("data", f"{engine}-{version}.{what}.json")
    head = json.loads(path.read_text(encoding="utf-8"))
    assert head["version"] == version == case.limits.image.version
    assert head["source"].startswith(f"PyPI wheel {engine}-{version}-")


@every_engine
def test_the_pinned_image_is_by_digest_and_a_tag_tells_an_own_images_release(case: Case) -> None:
    pinned = case.limits.image
    assert "@sha256:" in pinned.reference
    assert case.limits.version_of(pinned.reference) == pinned.version
    assert case.limits.version_of("registry.example/own:v0.11.0-cu129@sha256:" + "a" * 64) == "0.11.0"
    assert case.limits.version_of("registry.example/own@sha256:" + "a" * 64) is None


@every_engine
def test_every_managed_and_refused_flag_exists(case: Case) -> None:
    extras = case.settings.extras
    assert set(extras.managed_flags) | set(extras.refused_flags) <= set(facts.flags(*case.release))
    assert not set(extras.managed_flags) & set(extras.refused_flags)


@every_engine
@pytest.mark.parametrize("field", ["kv_cache_dtype", "dtype", "load_format"])
def test_every_typed_choice_is_one_the_release_takes(case: Case, field: str) -> None:
    schema = case.settings.model_json_schema()["properties"][field]
    choices = next(part["enum"] for part in schema["anyOf"] if "enum" in part)
    known = facts.flags(*case.release)[field.replace("_", "-")].choices
    assert not known or set(choices) <= set(known)


@every_engine
@pytest.mark.parametrize("kind", ["latency", "ttft", "tpot"])
def test_an_objective_counts_at_an_edge_that_the_histogram_has(case: Case, kind: str) -> None:
    signal = case.signals.signals()[f"{kind}_p95"]
    assert signal.edges == facts.metrics(*case.release)[signal.histogram].buckets
    edge = case.signals.histogram_edge(kind, 0.3)
    assert edge in signal.edges
    assert f'le="{le(edge)}"' in case.signals.objective_counts(kind, 0.3).bad
    with pytest.raises(ValueError, match=r"counts .* up to"):
        case.signals.histogram_edge(kind, 10 * signal.edges[-1])


@every_engine
@pytest.mark.parametrize("extra", [["--served-model-name", "x"], ["--served-model-name=x"]])
def test_a_flag_with_a_field_of_its_own_is_refused_with_the_field(case: Case, extra: list[str]) -> None:
    with pytest.raises(ValidationError, match=r"field of its own: use model\.id"):
        case.settings.model_validate({"kind": case.release[0], "extra_args": extra})


def test_a_level_is_read_attached_and_as_an_argument_of_its_own() -> None:
    """vLLM's parser alone: `-O3`, `-O=3`."""
    for given in (["-O3"], ["-O=3"], ["--optimization-level", "3"]):
        assert VllmSettings.extras.flags(given) == [("optimization-level", "3")]
    with pytest.raises(ValidationError, match="no flag of this SGLang release"):
        SglangSettings(kind="sglang", extra_args=("-O3",))
