"""`servingstack bench` against a server whose delays are known: it measures them, and the next plan finds the
file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CHAT, Command, Project
from tests.cli.openai_server import Behaviour, serving

from servingstack.bench import Bench, BenchError, Wanted, spread
from servingstack.measured import MeasuredTable
from servingstack.measured_formats import read


def measure(url: str, behaviour: Behaviour | None = None, **changes: object) -> MeasuredTable:
    fields: dict[str, object] = {
        "url": url, "input_tokens": 20, "output_tokens": 11, "concurrency": (1, 4), "requests": 6,
        "warm_up": 1, "timeout_s": 5,
    }  # fmt: skip
    return Bench(Wanted(**{**fields, **changes}), None).run(lambda _: None)  # type: ignore[arg-type]


def _near(measured: float | None, real: float) -> bool:
    """Never less than the delay that was made; more only by what a busy machine adds."""
    return measured is not None and 0.98 * real <= measured <= 2.5 * real


class TestWhatIsMeasured:
    def test_the_delays_of_the_server_come_out(self) -> None:
        behaviour = Behaviour(ttft_s=0.06, tpot_s=0.01)
        with serving(behaviour) as url:
            table = measure(url)
        assert [row.concurrency for row in table.rows] == [1, 4]
        for row in table.rows:
            assert row.ttft_ms is not None
            assert row.tpot_ms is not None
            assert row.latency_ms is not None
            assert _near(row.ttft_ms.p50, 60)
            assert _near(row.tpot_ms.p50, 10)
            assert _near(row.latency_ms.p50, 160)
            assert row.latency_ms.mean is not None
            assert row.requests_per_s == pytest.approx(row.concurrency / row.latency_ms.mean * 1000, rel=1e-3)
            assert row.output_tokens_per_s == pytest.approx(row.requests_per_s * 11)
        # The server counts a request until its last byte is out; the next one may be there by then.
        assert behaviour.most_running in (4, 5)
        assert (table.model, table.output_tokens) == ("tiny", 11)

    def test_tokens_are_counted_by_the_server_and_not_by_chunks(self) -> None:
        with serving(Behaviour(tpot_s=0.01, tokens_per_chunk=5)) as url:
            [row] = measure(url, concurrency=(1,)).rows
        assert row.tpot_ms is not None
        assert _near(row.tpot_ms.p50, 10), "chunks of five tokens each come every 50 ms"

    def test_without_usage_chunks_are_counted(self) -> None:
        with serving(Behaviour(usage=False)) as url:
            table = measure(url, concurrency=(1,))
        assert (table.input_tokens, table.output_tokens) == (None, 11)

    def test_warm_up_is_counted_nowhere(self) -> None:
        behaviour = Behaviour(slow_first=3)
        with serving(behaviour) as url:
            [row] = measure(url, concurrency=(1,), warm_up=2).rows
        assert row.latency_ms is not None
        assert row.latency_ms.p99 is not None
        assert row.latency_ms.p99 < 900, "the first three took a second more"

    def test_the_first_request_of_each_worker_is_not_counted_either(self) -> None:
        behaviour = Behaviour(slow_first=2 + 4)
        with serving(behaviour) as url:
            [row] = measure(url, concurrency=(4,), requests=8).rows
        assert row.requests == 8
        assert row.latency_ms is not None
        assert row.latency_ms.p99 is not None
        assert row.latency_ms.p99 < 900

    def test_prompts_have_the_asked_length_in_the_servers_tokens_and_never_begin_alike(self) -> None:
        behaviour = Behaviour(tokens_per_word=2.0)
        with serving(behaviour) as url:
            table = measure(url, concurrency=(1, 2), input_tokens=100)
        assert table.input_tokens == pytest.approx(100, rel=0.1)
        beginnings = [prompt.split()[0] for prompt in behaviour.prompts]
        assert len(set(beginnings)) == len(beginnings), "or the prefix cache would answer"

    def test_it_asks_for_a_stream_of_full_length_with_usage(self) -> None:
        behaviour = Behaviour()
        with serving(behaviour) as url:
            measure(url, concurrency=(1,))
            measure(f"{url}/v1", concurrency=(1,), ignore_eos=False)
        assert behaviour.bodies[0]["stream"] is True
        assert behaviour.bodies[0]["ignore_eos"] is True
        assert behaviour.bodies[0]["stream_options"] == {"include_usage": True}
        assert "ignore_eos" not in behaviour.bodies[-1]

    def test_rows_are_of_one_replica(self) -> None:
        with serving(Behaviour()) as url:
            table = measure(url, concurrency=(4,), replicas=2)
        [row] = table.rows
        assert (row.concurrency, table.replicas) == (2, 2)
        assert row.latency_ms is not None
        assert row.latency_ms.mean is not None
        assert row.requests_per_s == pytest.approx(2 / row.latency_ms.mean * 1000, rel=1e-3)


class TestWhatGoesWrong:
    def test_a_full_queue_ends_the_sweep_and_is_noted(self) -> None:
        with serving(Behaviour(busy_above=3)) as url:
            table = measure(url, concurrency=(1, 2, 8))
        assert [row.concurrency for row in table.rows] == [1, 2]
        assert "concurrency 8" in table.notes[0]
        assert "429" in table.notes[0]

    def test_no_server_is_said(self) -> None:
        with pytest.raises(BenchError, match="no list of models"):
            measure("http://127.0.0.1:9")

    def test_no_address_is_said(self) -> None:
        with pytest.raises(BenchError, match="no http:// or https:// address"):
            measure("localhost:8000")

    def test_an_answer_that_takes_too_long_is_a_failure(self) -> None:
        with serving(Behaviour(ttft_s=0.05, tpot_s=0.2)) as url, pytest.raises(BenchError, match="time"):
            measure(url, timeout_s=0.4)


def test_percentiles_are_values_that_were_seen() -> None:
    found = spread([float(value) for value in range(1, 101)])
    assert (found.p50, found.p95, found.p99, found.mean) == (50, 95, 99, 50.5)
    assert spread([7.0]).p99 == 7
    with pytest.raises(ValueError, match="no values"):
        spread([])


ONCE = (
    "--concurrency",
    "1",
    "--requests",
    "2",
    "--warm-up",
    "0",
    "--input-tokens",
    "8",
    "--output-tokens",
    "4",
)


class TestTheCommand:
    def test_the_table_lies_beside_the_lock_with_the_conditions_of_the_stack(
        self, command: Command, project: Project
    ) -> None:
        planned = command("plan", "dev", "--json").json()["stacks"]["chat"]["architecture"]
        with serving(Behaviour()) as url:
            result = command("bench", "dev", "--url", url, *ONCE)
        assert result.code == 0, result.err
        path = project.root / "stacks" / "bench.dev.chat.json"
        assert path.parent == project.lock.parent
        table = read([path])
        assert table.model == planned["model"] == "Qwen/Qwen2.5-7B-Instruct"
        assert table.accelerator == planned["accelerator"]
        assert table.gpus_per_replica == planned["gpus_per_replica"]
        assert table.precision == planned["precision"]
        assert table.engine == "vllm 0.30.0"
        assert "concurrency 1:" in result.err

    def test_the_next_plan_finds_it_uses_it_says_so_and_shows_where_its_estimate_was_off(
        self, command: Command, project: Project
    ) -> None:
        project.write(CHAT | {"hardware": {"accelerators": ["a100-80gb"], "gpus_per_replica": 1}})
        before = command("plan", "dev", "--json").json()["stacks"]["chat"]
        with serving(Behaviour(ttft_s=0.4, tpot_s=0.03)) as url:
            shape = (
                "--input-tokens",
                "512",
                "--output-tokens",
                "16",
                "--concurrency",
                "1,4",
                "--requests",
                "2",
            )
            assert command("bench", "dev", "--url", url, *shape).code == 0
        after = command("plan", "dev", "--json").json()["stacks"]["chat"]
        assert before["expected"]["tpot_p95_ms"]["source"].startswith("roofline")
        assert after["expected"]["tpot_p95_ms"]["source"].startswith("measured (servingstack")
        assert after["expected"]["tpot_p95_ms"]["value"] > 1.5 * before["expected"]["tpot_p95_ms"]["value"]
        assert after["batching"]["max_num_seqs"] == 4, "nothing is promised beyond what was measured"
        assert after["args_key"] != before["args_key"], "a lock from before is stale"
        said = [item["message"] for item in after["warnings"] if item["code"] == "estimate-was-off"]
        assert any(line.startswith("The measured table is used.") and "tpot" in line for line in said)
        assert not [item for item in before["warnings"] if item["path"] == "measured"]

    def test_a_table_of_other_hardware_is_not_used_and_that_is_said(
        self, command: Command, project: Project
    ) -> None:
        stack = CHAT | {"hardware": {"accelerators": ["a100-80gb"], "gpus_per_replica": 1}}
        project.write(stack | {"measured": {"files": "l4.json", "accelerator": "L4"}})
        with serving(Behaviour()) as url:
            assert command("bench", "--url", url, *ONCE, "--out", "stacks/l4.json").code == 0
        table = json.loads((project.root / "stacks/l4.json").read_text())
        (project.root / "stacks/l4.json").write_text(json.dumps(table | {"model": CHAT["model"]["id"]}))
        planned = command("plan", "dev", "--json").json()["stacks"]["chat"]
        assert planned["expected"]["tpot_p95_ms"]["source"].startswith("roofline")
        [said] = [item["message"] for item in planned["warnings"] if item["code"] == "measured-table-unused"]
        assert "accelerator l4 where a100-80gb is planned" in said

    def test_a_path_that_is_wrong_is_invalid_input_at_its_place(
        self, command: Command, project: Project
    ) -> None:
        project.write(CHAT | {"measured": "gone.json"})
        result = command("plan", "dev", "--json")
        assert result.code == 2
        assert result.error()["violations"][0]["path"] == "stacks[0].measured"

    def test_without_overrides_the_traffic_of_the_stack_is_measured(
        self, command: Command, project: Project
    ) -> None:
        behaviour = Behaviour(ttft_s=0, tpot_s=0)
        with serving(behaviour) as url:
            result = command("bench", "dev", "--url", url, *ONCE[:6])
        assert result.code == 0, result.err
        assert behaviour.bodies[-1]["max_tokens"] == 128
        assert len(behaviour.prompts[-1].split()) == pytest.approx(512, rel=0.05)

    def test_a_job_is_printed_for_the_cluster_with_the_traffic_of_the_stack(
        self, command: Command, project: Project
    ) -> None:
        result = command("bench", "dev", "--job")
        assert result.code == 0, result.err
        body = result.json()
        assert (body["kind"], body["metadata"]["name"]) == ("Job", "chat-bench")
        first = body["spec"]["template"]["spec"]["initContainers"][0]["command"]
        assert {"--random-input-len=512", "--random-output-len=128"} <= set(first)
        assert command("bench", "dev").code == 2, "neither an address nor a Job"

    def test_a_bare_address_needs_a_file_to_write(self, command: Command, tmp_path: Path) -> None:
        with serving(Behaviour()) as url:
            assert command("bench", "--url", url, *ONCE).code == 2
            out = tmp_path / "x.json"
            result = command("bench", "--url", url, *ONCE, "--out", str(out), "--json")
        assert result.code == 0
        assert result.json() == json.loads(out.read_text())
        assert read([out]).accelerator is None

    def test_the_api_key_comes_from_a_variable_and_is_written_nowhere(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "x.json"
        monkeypatch.setenv("CHAT_KEY", "sk-very-secret")
        with serving(Behaviour(key="sk-very-secret")) as url:
            result = command("bench", "--url", url, *ONCE, "--out", str(out), "--api-key-env", "CHAT_KEY")
            without = command("bench", "--url", url, *ONCE, "--out", str(out))
        assert result.code == 0, result.err
        assert "sk-very-secret" not in out.read_text() + result.out + result.err
        assert without.code == 2
        assert "401" in without.err

    def test_a_variable_that_is_not_set_and_a_wrong_list_are_refused(
        self, command: Command, tmp_path: Path
    ) -> None:
        out = str(tmp_path / "x.json")
        absent = command("bench", "--url", "http://127.0.0.1:9", "--out", out, "--api-key-env", "NOT_SET_1")
        assert (absent.code, "NOT_SET_1" in absent.err) == (2, True)
        for wrong in ("", "0", "1,,2", "a", "1-4", "-1"):
            got = command("bench", "--url", "http://127.0.0.1:9", "--out", out, f"--concurrency={wrong}")
            assert got.code == 2, wrong
            assert "--concurrency" in got.err

    def test_an_endpoint_that_is_not_there_is_invalid_input_and_no_crash(
        self, command: Command, tmp_path: Path
    ) -> None:
        out = tmp_path / "x.json"
        result = command("bench", "--url", "http://127.0.0.1:9", "--out", str(out), "--json")
        assert result.code == 2
        assert result.error()["violations"][0]["path"] == "--url"
        assert not out.exists()
