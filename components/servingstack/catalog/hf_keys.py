"""Reading keys of a config while collecting every problem.

Trap: a null in `config.json` means "not set", and a key that is absent may live under an older name; both
are tried before a key counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servingstack.errors import Violation


class Keys:
    """One JSON object, with the violations found in it so far. A bad or missing number reads as 0."""

    def __init__(self, config: Mapping[str, Any], path: str) -> None:
        self._config = config
        self._path = path
        self.violations: list[Violation] = []

    def raw(self, key: str) -> Any:
        """The value as it stands; None where absent."""
        return self._config.get(key)

    def bad(self, key: str, value: Any, allowed: str, fix: str) -> None:
        """Record a violation."""
        self.violations.append(Violation(f"{self._path}.{key}", value, allowed, fix))

    def positive(self, key: str, *older: str) -> int:
        """A whole number above 0 under this or an older name; recorded as missing where there is none."""
        for name in (key, *older):
            if self._config.get(name) is not None:
                return self._whole(name, minimum=1)
        self.bad(key, None, "a positive integer", "Add it, as the model's config.json has it.")
        return 0

    def optional(self, key: str, default: int) -> int:
        """A whole number of 0 or more; `default` where the key is absent or null."""
        return default if self._config.get(key) is None else self._whole(key, minimum=0)

    def boolean(self, key: str, default: bool) -> bool:
        """true or false; `default` where the key is absent or null."""
        value = self._config.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.bad(key, value, "true or false", "Correct it.")
        return default

    def _whole(self, key: str, minimum: int) -> int:
        value = self._config[key]
        if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
            return value
        self.bad(key, value, f"an integer of {minimum} or more", "Copy it as the model's config.json has it.")
        return 0
