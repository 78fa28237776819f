"""promtool and Prometheus in tests, as Debian packages them."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from tests.targets.kubernetes.door import free_port

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


class Prometheus:
    """A running one, asked over its API."""

    def __init__(self, folder: Path, jobs: list[dict[str, Any]], rules: Path) -> None:
        self.port = free_port()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self._log = (folder / "log").open("wb")
        command = [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def get(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def samples(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values; values that are no number are left out."""
        found = self.get("query", query=query)["result"]
        values = [(sample["metric"], float(sample["value"][1])) for sample in found]
        return [(labels, value) for labels, value in values if math.isfinite(value)]

    def value(self, query: str) -> float:
        ((_, value),) = self.samples(query)
        return value

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._log.close()


def job(name: str, port: int, path: str, **labels: str) -> dict[str, Any]:
    """A target as a monitor makes it: `job`, `namespace`, `pod`; the page's own labels are not honoured."""
    static = {"targets": [f"127.0.0.1:{port}"], "labels": labels | {"__metrics_path__": path}}
    return {"job_name": name, "honor_labels": False, "static_configs": [static]}


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
