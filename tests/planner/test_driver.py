"""An image and the driver that a service gives its machines."""

from __future__ import annotations

import dataclasses

import pytest
from tests.sample import sample_plan

from servingstack.args import ServingStackArgs
from servingstack.engines import facts
from servingstack.engines.registry import ENGINES
from servingstack.engines.vllm_limits import DRIVER, VERSION
from servingstack.errors import Infeasible
from servingstack.planner import plan
from servingstack.planner.demand import Demand, resolve
from servingstack.planner.driver import fitted, refusal
from servingstack.targets import capabilities

VARIABLE = "VLLM_ENABLE_CUDA_COMPATIBILITY"


def demand_on(branch: int | None, **engine: object) -> Demand:
    """A demand on an option whose L4s have that driver."""
    given = {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
        "target": {"option": "kubernetes"},
        "engine": {"kind": "vllm", **engine},
    }
    drivers = {} if branch is None else {"l4": branch}
    can = dataclasses.replace(capabilities("kubernetes"), drivers=drivers)
    return resolve(ServingStackArgs.parse(given), can)


def fit(branch: int | None, **engine: object) -> tuple[dict[str, str | None], list[str]]:
    """The container's variables and the warnings' codes, on machines with that driver."""
    demand = demand_on(branch, **engine)
    assert refusal(demand, "l4") is None
    found, warnings = fitted(demand, "l4", sample_plan().container)
    return {each.name: each.value for each in found.env}, [each.code for each in warnings]


def test_the_variable_is_one_of_the_pinned_release() -> None:
    assert {name for name, _ in DRIVER.older} <= set(facts.environment("vllm", VERSION))


def test_nothing_is_added_where_the_driver_is_new_enough_or_not_the_services() -> None:
    for branch in (580, 610, None):
        env, codes = fit(branch)
        assert VARIABLE not in env
        assert codes == []


def test_an_older_driver_gets_the_images_own_libraries_and_a_word_about_it() -> None:
    env, codes = fit(535)
    assert env[VARIABLE] == "1"
    assert codes == ["older-driver"]


def test_a_driver_that_is_too_old_for_them_is_refused() -> None:
    assert "525, and the image needs 580" in str(refusal(demand_on(525), "l4"))


def test_an_image_of_ones_own_is_not_guessed_about() -> None:
    env, codes = fit(535, image=f"acme/engine:v0.30.0-cu129@sha256:{'a' * 64}")
    assert VARIABLE not in env
    assert codes == ["driver-not-checked"]


def test_an_engine_whose_image_brings_no_such_libraries_takes_another_gpu_or_is_refused() -> None:
    assert "CUDA 13 needs branch 580" in str(refusal(demand_on(535, kind="sglang"), "l4"))
    given = {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "source": "gs://models/qwen"},
        "target": {"option": "cloud-run"},
        "engine": {"kind": "sglang"},
    }
    assert plan(given).architecture.accelerator == "rtx-pro-6000"
    with pytest.raises(Infeasible, match="driver 535"):
        plan({**given, "hardware": {"accelerators": ["l4"]}})


def test_every_branch_is_one_of_cuda_13() -> None:
    args = ServingStackArgs.parse(
        {"name": "a", "model": {"id": "BAAI/bge-m3"}, "target": {"option": "kubernetes"}}
    )
    found = {kind: engine.driver(args) for kind, engine in ENGINES.items()}
    assert {each.branch for each in found.values() if each is not None} == {580}
