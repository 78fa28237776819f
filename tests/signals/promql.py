"""Reading PromQL in tests: Prometheus' own grammar, by promql-parser."""

from __future__ import annotations

from typing import Any

import promql_parser

from servingstack.watched import Monitoring


def normal(expression: str) -> str:
    """One spelling for equal expressions: matchers in order, blanks and line ends as the grammar has them."""
    return " ".join(promql_parser.parse(expression).prettify().split())


def _vectors(expression: str) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        vector = node.vector_selector if isinstance(node, promql_parser.MatrixSelector) else node
        if isinstance(vector, promql_parser.VectorSelector):
            found.append(vector)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def selectors(expression: str) -> list[dict[str, str]]:
    """Every selector: its metric as `__name__`, and the values of its matchers."""
    return [
        {"__name__": vector.name} | {matcher.name: matcher.value for matcher in vector.matchers.matchers}
        for vector in _vectors(expression)
    ]


def selector_queries(expression: str) -> list[str]:
    """Every selector, as a query of its own."""
    return [vector.prettify() for vector in _vectors(expression)]


def expressions(monitoring: Monitoring) -> dict[str, str]:
    """Every expression of a plan by what it is for."""
    found: dict[str, str] = {}
    for signal in monitoring.signals:
        found[f"signal {signal.id}"] = signal.query
        found |= {f"signal {signal.id}, {legend}": query for legend, query in signal.queries.items()}
    for rule in monitoring.recording_rules:
        found[f"record {rule.record} of {rule.labels['sloth_slo']}"] = rule.expression
    for alert in monitoring.alerts:
        found[f"alert {alert.name} {alert.severity}"] = alert.expression
    return found
