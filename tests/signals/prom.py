"""promtool and Prometheus in tests, as Debian packages them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from servingstack.plan import ServingPlan
from servingstack.targets.kubernetes import manifests


def program(name: str) -> str:
    """Path of `promtool` or `prometheus`. Raises RuntimeError with what to install."""
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is needed: `make setup`, or your system's package `prometheus`")
    return found


def rule_file(plan: ServingPlan, folder: Path) -> Path:
    """What the cluster gets as PrometheusRule, as a rule file."""
    (rules,) = (found.body for found in manifests.manifests(plan) if found.kind == "PrometheusRule")
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rules["spec"]["groups"]}), encoding="utf-8")
    return path


def promtool(*arguments: str | Path, cwd: Path) -> str:
    """Output of promtool. AssertionError with it when it fails."""
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rule_test(name: str, series: dict[str, str], firing: dict[int, set[str]]) -> dict[str, Any]:
    """One promtool test: input series by selector, and at each minute the alerts that fire and no other."""
    counts = [
        {
            "expr": 'sort(count by (alertname, severity) (ALERTS{alertstate="firing"}) > bool 0)',
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": '{{alertname="{}",severity="{}"}}'.format(*alert.split()), "value": 1}
                for alert in sorted(alerts)
            ],
        }
        for minute, alerts in firing.items()
    ]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": selector, "values": values} for selector, values in series.items()],
        "promql_expr_test": counts,
    }
