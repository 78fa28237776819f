"""Waiting: the formulas against known values and against a simulation that shares only the step's
duration."""

from __future__ import annotations

import math

import pytest

from servingstack import catalog
from servingstack.planner.demand import Limit
from servingstack.planner.load import SATURATION, Replica, capacity
from servingstack.planner.queueing import admission_wait, occupancy, prefill_wait

from .build import known, paced, replica
from .simulation import Seen, simulate

CASES = [
    ("Qwen/Qwen3-8B", "h100-80gb", 1, 1024, 256, 200),
    ("meta-llama/Llama-3.1-8B", "l4", 2, 1024, 256, 60),
    ("meta-llama/Llama-3.1-70B", "h100-80gb", 4, 2048, 256, 64),
    ("Qwen/Qwen3-8B", "h100-80gb", 1, 8000, 200, 40),
    ("Qwen/Qwen2.5-0.5B-Instruct", "t4", 1, 512, 128, 256),
]


@pytest.mark.parametrize("load", [0.4, SATURATION])
@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]} {case[3]}+{case[4]}" for case in CASES])
def test_the_formulas_follow_the_simulation(case: tuple, load: float) -> None:
    model, gpu_id, tp, prompt, answer, places = case
    gpu = catalog.gpu(gpu_id)
    pace = paced(known(model), gpu, tp=tp)
    found = replica(pace, gpu, prompt=prompt, answer=answer, places=places)
    rate = load * found.rate(places)
    busy = found.in_flight_at(rate)
    seen = simulate(found, rate, 3000, seed=7)
    assert found.ttft_at(busy, 0.5) == pytest.approx(Seen.quantile(seen.ttft, 0.5), rel=0.25)
    assert found.tpot_at(busy, 0.5) == pytest.approx(Seen.quantile(seen.tpot, 0.5), rel=0.25)
    # Percentiles of a short run scatter; what matters is that the planner is not much too hopeful.
    assert found.ttft_at(busy, 0.95) > 0.75 * Seen.quantile(seen.ttft, 0.95)
    assert found.tpot_at(busy, 0.95) > 0.75 * Seen.quantile(seen.tpot, 0.95)
    assert found.ttft_at(busy, 0.95) < 1.6 * Seen.quantile(seen.ttft, 0.95)
    assert found.tpot_at(busy, 0.95) < 1.4 * Seen.quantile(seen.tpot, 0.95)


def test_an_idle_queue_has_no_wait_and_a_full_one_no_end() -> None:
    assert prefill_wait(0.01, 0.1, 0.95) == 0
    assert prefill_wait(10, 0.1, 0.95) == math.inf
    assert admission_wait(0.1, 8, 3, 0.95) == 0
    assert admission_wait(8, 8, 3, 0.95) == math.inf


def test_with_one_place_the_wait_is_that_of_a_single_server() -> None:
    # M/M/1: P(wait > t) = load exp(-(1 - load) t / service), so at load 0.8 the 95th percentile is
    # ln(0.8 / 0.05) / 0.2 services.
    assert admission_wait(0.8, 1, 1.0, 0.95) == pytest.approx(math.log(0.8 / 0.05) / 0.2)


def test_more_places_wait_less_at_the_same_load() -> None:
    waits = [admission_wait(0.9 * places, places, 1.0, 0.95) for places in (1, 4, 16, 64)]
    assert waits == sorted(waits, reverse=True)


def test_the_batch_is_never_fuller_than_its_places() -> None:
    assert occupancy(10, 12, 0.99) == 12
    assert occupancy(10, 12, 0.5) == 10


def _replica() -> Replica:
    gpu = catalog.gpu("l4")
    return replica(
        paced(known("meta-llama/Llama-3.1-8B"), gpu, tp=2), gpu, prompt=1024, answer=256, places=60
    )


def test_a_replica_is_planned_below_saturation() -> None:
    found = capacity(_replica(), ())
    assert found.rate <= SATURATION * found.saturation * 1.0001
    assert "saturation" in found.limited_by


def test_replicas_come_from_waiting_not_from_division() -> None:
    """A limit on the first token lowers what a replica bears although the GPU could do more."""
    tight = capacity(_replica(), (Limit("ttft", 0.95, 0.25, "slo.ttft_p95"),))
    loose = capacity(_replica(), (Limit("ttft", 0.95, 2.0, "slo.ttft_p95"),))
    assert tight.rate < 0.8 * loose.rate
    assert tight.limited_by == "slo.ttft_p95"


def test_at_its_capacity_every_limit_is_kept_and_just_so() -> None:
    limit = Limit("ttft", 0.95, 0.30, "slo.ttft_p95")
    replica_, found = _replica(), capacity(_replica(), (limit,))
    assert replica_.value(limit, found.in_flight) <= limit.seconds
    assert replica_.value(limit, found.in_flight * 1.05) > limit.seconds
