"""A Pulumi project's config becomes stacks; what is wrong in it stops before anything is registered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import config as runtime_config

from servingstack import lock
from servingstack.args import ServingStackArgs
from servingstack.cli.graph import Resource, record
from servingstack.planner import plan
from servingstack.project import deploy

SMALL: dict[str, Any] = {
    "name": "small",
    "model": {"id": "Qwen/Qwen2.5-0.5B-Instruct", "max_model_len": 2048},
    "target": {"option": "kubernetes"},
    "hardware": {"accelerators": ["l4"]},
}


@pytest.fixture(autouse=True)
def own_config() -> Iterator[None]:
    yield
    runtime_config.set_all_config({}, [])


def deployed(folder: Path, secret: list[str] | None = None, **config: Any) -> dict[str, Resource]:
    """What a project with this config registers, by name."""
    values = {key if ":" in key else f"servingstack:{key}": value for key, value in config.items()}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    runtime_config.set_all_config(texts, [] if secret is None else secret)

    def program() -> None:
        deploy(folder)

    return {item.name: item for item in record(program)}


def test_every_stack_of_the_config_is_created_over_the_defaults(tmp_path: Path) -> None:
    defaults = {key: SMALL[key] for key in ("target", "hardware")}
    stacks = [{"name": name, "model": SMALL["model"]} for name in ("one", "two")]
    found = deployed(tmp_path, stacks=stacks, defaults=defaults)
    components = [item.name for item in found.values() if item.type == "servingstack:index:ServingStack"]
    assert components == ["one", "two"]
    assert found["one"].inputs["gpu"] == "l4"


def test_the_lock_file_of_the_environment_is_what_is_deployed(tmp_path: Path) -> None:
    fresh = plan(ServingStackArgs.parse(SMALL))
    held = fresh.model_copy(update={"batching": fresh.batching.model_copy(update={"max_num_seqs": 7})})
    lock.write(tmp_path / "plan.preview.lock.json", lock.make({"small": held}))
    assert deployed(tmp_path, stacks=[SMALL])["small"].inputs["max_num_seqs"] == 7
    assert deployed(tmp_path / "elsewhere", stacks=[SMALL])["small"].inputs["max_num_seqs"] != 7


def test_references_of_existing_are_resolved_one_stack_reference_for_all(tmp_path: Path) -> None:
    reference = {"stack": "org/net/prod", "output": "context"}
    existing = {"kubeconfig": {"config": "cluster:kubeconfig"}, "context": reference}
    stacks = [SMALL | {"name": name, "existing": existing} for name in ("one", "two")]
    more = {"cluster:kubeconfig": "the-kubeconfig"}
    found = deployed(tmp_path, secret=["cluster:kubeconfig"], stacks=stacks, **more)
    for name in ("one", "two"):
        assert found[f"{name}-kubernetes-cluster"].inputs["kubeconfig"] == "[secret]"
    assert "the-kubeconfig" not in json.dumps([item.document() for item in found.values()])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"stacks": [SMALL | {"slo": {"ttft_p95": 500}}, SMALL]}, "stacks[0].slo.ttft_p95"),
        ({"stacks": [SMALL | {"slo": {"ttft_p95": 500}}, SMALL]}, "stacks[1].name"),
        ({"defaults": SMALL}, "stacks"),
        ({"stacks": [SMALL | {"slo": {"ttft_p95": "1ms"}}]}, "no plan meets this"),
    ],
)
def test_what_cannot_be_planned_stops_with_its_reason_and_no_traceback(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        deployed(tmp_path, **config)
    assert words in str(caught.value)


def test_a_secret_anywhere_inside_the_stacks_is_refused_without_showing_it(tmp_path: Path) -> None:
    hidden = [SMALL | {"existing": {"context": "decrypted"}}]
    with pytest.raises(pulumi.RunError) as caught:
        deployed(tmp_path, secret=["servingstack:stacks"], stacks=hidden)
    assert "servingstack:stacks" in str(caught.value)
    assert "decrypted" not in str(caught.value)


def test_a_broken_lock_file_stops_a_deployment(tmp_path: Path) -> None:
    (tmp_path / "plan.preview.lock.json").write_text("{")
    with pytest.raises(pulumi.RunError, match=r"plan\.preview\.lock\.json line 1"):
        deployed(tmp_path, stacks=[SMALL])


SHARED = {
    "accelerator": "l4", "gpus": 1, "count": 3, "cpu": 30, "memory": "110Gi", "hourly_price": 0.8,
    "sharing": {"time_slices": 4, "renamed": True},
}  # fmt: skip


def _member(name: str, model: str) -> dict[str, Any]:
    own = {"name": name, "model": {"id": model, "max_model_len": 2048}, "colocate": "small"}
    traffic = {"requests_per_second": 0.2, "input_tokens": 256, "output_tokens": 64}
    return SMALL | own | {"hardware": {"nodes": [SHARED]}, "traffic": traffic}


def test_stacks_that_share_a_gpu_are_looked_at_together_before_any_is_registered(tmp_path: Path) -> None:
    fitting = [_member("a", "Qwen/Qwen2.5-0.5B-Instruct"), _member("b", "Qwen/Qwen2.5-1.5B-Instruct")]
    assert "a" in deployed(tmp_path, stacks=fitting)
    large = [_member("a", "Qwen/Qwen2.5-7B-Instruct"), _member("b", "Qwen/Qwen2.5-3B-Instruct")]
    with pytest.raises(pulumi.RunError, match=r"stacks\[1\]\.colocate.*GiB"):
        deployed(tmp_path, stacks=large)


def test_a_locked_member_counts_as_it_is_locked(tmp_path: Path) -> None:
    """The lock of one holds more than a fresh plan of it would: both are deployed as they are locked."""
    small, other = (_member(name, "Qwen/Qwen2.5-1.5B-Instruct") for name in ("a", "b"))
    grown = plan(ServingStackArgs.parse(_member("a", "Qwen/Qwen2.5-7B-Instruct")))
    held = grown.model_copy(update={"args_key": ServingStackArgs.parse(small).key()})
    lock.write(tmp_path / "plan.preview.lock.json", lock.make({"a": held}))
    with pytest.raises(pulumi.RunError, match="too much"):
        deployed(tmp_path, stacks=[small, other])
