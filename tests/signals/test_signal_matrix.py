"""The page that says what is watched is what is deployed, and it is complete."""

from __future__ import annotations

from tools.signal_matrix import MATRIX, PAGE, page

from servingstack.targets import REGISTRY, capabilities


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tools/signal_matrix.py"


def test_every_option_has_each_signal_as_a_query_or_a_reason() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for option in REGISTRY:
        for task in ("generate", "embed"):
            _, _, rest = text.partition(f"## {option}, task {task}\n")
            rows = dict(
                line.strip("| ").split(" | ", 1)
                for line in rest.split("\n## ")[0].splitlines()
                if " | " in line
            )
            for name in MATRIX:
                assert rows[name].startswith("`") or rows[name].startswith("none: "), (option, task, name)
            scaled = capabilities(option).queue_metric
            assert rows[scaled].startswith("`"), (option, scaled)
