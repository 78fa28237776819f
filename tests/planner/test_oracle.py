"""The winner, found a second time by a plain loop that skips nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from servingstack.args import ServingStackArgs
from servingstack.planner.candidate import Layout, Loss, fit, layout, narrowed, opened
from servingstack.planner.demand import Demand, resolve
from servingstack.planner.fleet import fleet
from servingstack.planner.hardware import offers
from servingstack.planner.parallelism import pipelines, splits, uneven
from servingstack.planner.precision import requested
from servingstack.planner.search import pins_of, search
from servingstack.targets import capabilities

from .build import document
from .test_properties import GPUS, MODELS

ROUNDS, DEMANDS = 10, 30


def every_layout(demand: Demand) -> Iterator[Layout]:
    """All candidates that fit: even splits of a node, else uneven ones, else pipelines."""
    model, pins = demand.model, pins_of(demand)
    precision = requested(model, demand.args.model.precision)
    for offer in offers(demand.args, demand.can):
        size = offer.gpus_per_node
        for tried in (
            splits(model, precision, size, pins),
            uneven(model, precision, size),
            pipelines(model, precision, size),
        ):
            fitting = [layout(demand, offer, tp, pp, precision) for tp, pp in tried]
            found = [each for each in fitting if isinstance(each, Layout)]
            yield from found
            if found:
                break


def cheapest(demand: Demand) -> float | None:
    """The lowest cost of all candidates, each looked at in full."""
    costs: list[float] = []
    for each in every_layout(demand):
        wide = opened(demand, each)
        if isinstance(wide, Loss):
            continue
        batch = narrowed(demand, wide)
        found = fleet(demand, fit(demand, each, batch))
        if not isinstance(found, Loss):
            costs.append(found.steady_usd)
    return min(costs, default=None)


def _demand(source: random.Random) -> dict[str, Any]:
    rate = source.uniform(0.1, 30)
    found = document(
        source.choice(MODELS),
        traffic={
            "requests_per_second": rate,
            "peak_requests_per_second": rate * source.uniform(1, 3),
            "input_tokens": source.randint(32, 4000),
            "output_tokens": source.randint(2, 400),
            "kind": source.choice(["online", "experiment"]),
        },
        request_timeout="60s",
    )
    if source.random() < 0.6:
        found["slo"] = {
            "ttft_p95": f"{source.randint(150, 3000)}ms",
            "tpot_p95": f"{source.randint(20, 150)}ms",
        }
    hardware: dict[str, Any] = {}
    if source.random() < 0.4:
        hardware["accelerators"] = source.sample(GPUS, 3)
    if source.random() < 0.3:
        hardware["max_gpus"] = source.randint(1, 40)
    if source.random() < 0.3:
        hardware["max_hourly_cost"] = source.uniform(1, 100)
    if source.random() < 0.4:
        found["target"] = {"option": "kubernetes", "cloud": source.choice(["aws", "azure", "gcp"])}
        hardware.pop("accelerators", None)
    return found | {"hardware": hardware}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_no_candidate_is_cheaper_than_the_winner(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(DEMANDS):
        demand = resolve(ServingStackArgs.parse(_demand(source)), capabilities("kubernetes"))
        best = search(demand).best
        expected = cheapest(demand)
        if expected is None:  # the loop does not convert precisions, the search may
            assert best is None or best.fit.layout.served.quantization == "fp8"
        else:
            assert best is not None
            assert best.fleet.steady_usd == pytest.approx(expected)
