"""Azure's query language on rows of one's own: a database with the tables that Container Apps fills.

Columns as on learn.microsoft.com/azure/azure-monitor/reference/tables: containerapphttplogs,
containerappconsolelogs, azuremetrics; those that the queries read, and a few that they might by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import duckdb_kql

TABLES = {
    "ContainerAppHTTPLogs": {
        "TimeGenerated": "TIMESTAMP",
        "ContainerAppName": "VARCHAR",
        "RevisionName": "VARCHAR",
        "ReplicaName": "VARCHAR",
        "Method": "VARCHAR",
        "Path": "VARCHAR",
        "StatusCode": "INTEGER",
        "RequestDuration": "BIGINT",
        "ResponseFlags": "VARCHAR",
    },
    "ContainerAppConsoleLogs": {
        "TimeGenerated": "TIMESTAMP",
        "ContainerAppName": "VARCHAR",
        "ContainerName": "VARCHAR",
        "RevisionName": "VARCHAR",
        "Log": "VARCHAR",
    },
    "AzureMetrics": {
        "TimeGenerated": "TIMESTAMP",
        "Resource": "VARCHAR",
        "MetricName": "VARCHAR",
        "Maximum": "DOUBLE",
    },
}


class Workspace:
    """A Log Analytics workspace that knows these tables and no other."""

    def __init__(self) -> None:
        self._connection = duckdb_kql.connect()
        for table, columns in TABLES.items():
            listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            self._connection.sql(f"CREATE TABLE {table} ({listed})")

    def add(self, table: str, rows: Iterable[Mapping[str, Any]], *, ago: timedelta = timedelta(0)) -> None:
        """Rows that arrived so long ago."""
        at = datetime.now(UTC).replace(tzinfo=None) - ago
        for row, same in groupby(rows):
            full = {"TimeGenerated": at, **row}
            values = ", ".join("?" for _ in full)
            into = f"INSERT INTO {table} ({', '.join(full)})"
            self._connection.execute(
                f"{into} SELECT {values} FROM range({len(list(same))})", list(full.values())
            )

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a query yields."""
        found = duckdb_kql.query(self._connection, query)
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]

    def values(self, query: str) -> list[float | None]:
        """The series that a panel shows."""
        return [row["value"] for row in self.rows(query)]

    def fires(self, query: str) -> bool:
        """Whether a rule on the query's rows does."""
        return bool(self.rows(query))

    def close(self) -> None:
        self._connection.close()
