"""A serverless endpoint beside the replicas: planned, refused, and behind a real HAProxy over TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sample import sample_plan
from tests.signals import promql
from tests.targets.kubernetes.bodies import by_role
from tests.targets.kubernetes.door import Door, free_port, proxies, wait_until
from tests.targets.kubernetes.servers import Engine

from servingstack import catalog
from servingstack.cli.plan_text import console, plan_view
from servingstack.errors import InvalidInput
from servingstack.overflow import Overflow
from servingstack.plan import ServingPlan
from servingstack.planner import plan
from servingstack.targets.kubernetes import dashboard, front_door

HOST = "acme--chat.modal.run"
ASKED: dict[str, Any] = {
    "option": "modal", "url": f"https://{HOST}", "at": 8, "proxy_token_secret": "modal-proxy",
}  # fmt: skip
PROXIES = proxies()


def document(**changes: Any) -> dict[str, Any]:
    overflow = changes.pop("overflow", ASKED)
    return {
        "name": "chat",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
        "target": {"option": "kubernetes", "overflow": overflow},
        "hardware": {"accelerators": ["l4"]},
        "traffic": {"requests_per_second": 1, "peak_requests_per_second": 3},
    } | changes


def refused(given: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        plan(given)
    return {each.path: f"{each.allowed}. {each.fix}" for each in caught.value.violations}


def overflow_of(found: ServingPlan) -> Overflow:
    assert found.front_door is not None
    assert found.front_door.overflow is not None
    return found.front_door.overflow


# ---- the plan ----


def test_the_plan_says_from_when_each_serves_and_at_which_price(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(document())
    overflow = overflow_of(found)
    assert (overflow.option, overflow.host, overflow.at) == ("modal", HOST, 8)
    served = found.expected.requests_per_s.value * found.scaling.max_replicas
    assert overflow.from_rps == pytest.approx(served, rel=1e-3)
    assert overflow.from_rps > 3
    assert overflow.hourly_usd == min(each.usd_per_hour for each in catalog.prices("modal", "L4:1"))
    assert "overflow-is-another-stack" in {each.code for each in found.warnings}
    console().print(plan_view(found))
    text = capsys.readouterr().out
    assert f"up to {served:.3g} requests/s" in text
    assert f"${overflow.hourly_usd:.2f} an hour" in text


def test_without_a_number_it_takes_what_the_queue_would_refuse() -> None:
    found = plan(document(overflow={"option": "cloud-run", "url": "https://chat-1.us-central1.run.app/"}))
    assert found.front_door is not None
    assert overflow_of(found).at == found.front_door.max_queue
    assert overflow_of(found).host == "chat-1.us-central1.run.app"
    assert "Modal-Key" not in front_door.haproxy_config(found)


def test_a_stack_without_one_is_as_it_was() -> None:
    plain = {**document(), "target": {"option": "kubernetes"}}
    with_one, without = plan(document()), plan(plain)
    assert without.front_door is not None
    assert without.front_door.overflow is None
    assert "overflow" not in front_door.haproxy_config(without)
    assert with_one.scaling == without.scaling


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (document(overflow={**ASKED, "url": f"http://{HOST}"}), "target.overflow.url", "https://"),
        (document(overflow={**ASKED, "url": f"https://{HOST}/v1"}), "target.overflow.url", "without port"),
        (document(overflow={**ASKED, "url": f"https://{HOST} \n bind"}), "target.overflow.url", "https"),
        (document(overflow={**ASKED, "url": f"https://u:p@{HOST}"}), "target.overflow.url", "no credential"),
        (document(overflow={**ASKED, "at": 1_000_000}), "target.overflow.at", "as many as may wait"),
        (document(overflow={**ASKED, "option": "cloud-run"}), "target.overflow", "only with option: modal"),
        (document(request_timeout="5m"), "request_timeout", "at most 150s"),
        (
            document(scaling={"min_replicas": 0, "scale_to_zero_after": "10m"}),
            "target.overflow", "nothing wakes one",
        ),
        (document(target={"option": "modal", "overflow": ASKED}), "target.overflow", "can: kubernetes"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_it_is_refused_by_its_field(
    given: dict[str, Any], path: str, words: str
) -> None:
    assert words in refused(given)[path]


def test_what_goes_there_counts_in_availability_and_has_a_panel() -> None:
    found = plan(document())
    queries = {signal.id: signal.query for signal in found.monitoring.signals}
    assert {each["proxy"] for each in promql.selectors(queries["overflow_requests"])} == {"overflow"}
    assert 'proxy=~"engine|overflow"' in queries["error_rate"]
    assert 'proxy=~"engine|overflow|busy"' in queries["requests_per_second"]
    recorded = [rule.expression for rule in found.monitoring.recording_rules if "5xx" in rule.expression]
    assert recorded
    for expression in recorded:
        assert expression.count('proxy=~"engine|overflow"') == 2
    assert "overflow" not in queries["queue_depth"]
    board = json.dumps(dashboard.dashboard(found))
    assert json.dumps(queries["overflow_requests"])[1:-1] in board


def test_the_doors_pod_reads_the_tokens_by_name_and_may_leave_the_cluster() -> None:
    objects = by_role(plan(document()))
    (container,) = objects["door"]["spec"]["template"]["spec"]["containers"]
    names = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container["env"]}
    assert names == {
        name: {"name": "modal-proxy", "key": name}
        for name in ("MODAL_PROXY_TOKEN_ID", "MODAL_PROXY_TOKEN_SECRET")
    }
    ports = [port["port"] for rule in objects["network-door"]["spec"]["egress"] for port in rule["ports"]]
    assert 443 in ports


# ---- a real HAProxy ----


OTHER = "another.modal.run"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of certificates that are trusted, of HOST and of another; their keys are beside the folder."""
    folder = tmp_path_factory.mktemp("trusted")
    for host in (HOST, OTHER):
        command = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}",
            "-addext", f"subjectAltName=DNS:{host}", "-keyout", str(folder.parent / f"{host}.key"),
            "-out", str(folder / f"{host}.pem"),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    return folder


class Outside(Engine):
    """The endpoint: a model server behind TLS."""

    def __init__(self, port: int, folder: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.folder = folder
        self.shows(HOST)
        super().__init__("127.0.0.2", port)

    def shows(self, host: str) -> None:
        """Shows a host's certificate from now on."""
        self.context.load_cert_chain(self.folder / f"{host}.pem", self.folder.parent / f"{host}.key")

    def get_request(self) -> tuple[Any, Any]:
        plain, address = super().get_request()
        return self.context.wrap_socket(plain, server_side=True), address


@pytest.fixture(params=sorted(PROXIES))
def burst(
    request: pytest.FixtureRequest, tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Door, Outside]]:
    """A door with one replica that takes one request at a time, and the endpoint. The configuration is the
    plan's but for whom it trusts: one of the binaries has no system."""
    real = front_door.haproxy_config

    def trusting(found: ServingPlan, **more: Any) -> str:
        text = real(found, **more)
        assert text.count(" ca-file @system-ca ") == 1
        return text.replace("@system-ca", str(certificates))

    monkeypatch.setattr(front_door, "haproxy_config", trusting)
    monkeypatch.setenv("MODAL_PROXY_TOKEN_ID", "wk-1")
    monkeypatch.setenv("MODAL_PROXY_TOKEN_SECRET", "ws-1")
    port = free_port("127.0.0.2")
    found = sample_plan(
        front_door={
            "replicas": 1, "port": free_port(), "stats_port": free_port(), "max_concurrent": 1,
            "max_queue": 9,
            "overflow": Overflow(
                option="modal", host=HOST, port=port, at=1, from_rps=1, proxy_token_secret="modal-proxy",
                hourly_usd=None, price_source=None,
            ),
        },
        timeouts={"request_s": 3, "stream_s": 4, "queue_s": 3, "drain_s": 3},
        container={"port": free_port("127.0.0.2")},
    )  # fmt: skip
    outside = Outside(port, certificates)
    door = Door(PROXIES[request.param], tmp_path, found, engines=("127.0.0.2",))
    yield door, outside
    door.close()
    outside.close()


def test_it_takes_what_would_wait_and_nothing_before(burst: tuple[Door, Outside]) -> None:
    door, outside = burst
    (engine,) = door.engines
    assert door.call().status == 200
    assert outside.seen == []
    running = door.calls({"wait": 2})
    wait_until(lambda: engine.running == 1, "the replica is busy")
    waiting = door.calls({})
    wait_until(lambda: door.backend("current_queue") == 1, "one request waits")
    answer = door.call()
    assert answer.status == 200
    assert answer.total_s < 1
    ((_, headers),) = outside.seen
    assert headers["host"] == HOST
    assert (headers["modal-key"], headers["modal-secret"]) == ("wk-1", "ws-1")
    assert [each.status for each in (*running.answers(), *waiting.answers())] == [200, 200]
    assert door.call().status == 200
    assert len(outside.seen) == 1
    assert door.backend("http_requests_total", "overflow") == 1


def test_it_takes_all_while_no_replica_is_up_with_the_same_limits(burst: tuple[Door, Outside]) -> None:
    door, outside = burst
    (engine,) = door.engines
    engine.close()
    wait_until(lambda: door.up() == 0, "HAProxy gives the replica up")
    assert door.call().status == 200
    assert door.get("/health").status == 200
    long = door.call({"stream": [0.2] * 60})
    assert long.cut
    assert 3.5 < long.total_s < 5.5
    assert door.call({"wait": 5}).status == 504
    assert door.send("POST", "/metrics").status == 404
    outside.close()
    assert door.call().status == 503


def test_an_endpoint_with_another_name_in_its_certificate_gets_no_request(
    burst: tuple[Door, Outside],
) -> None:
    door, outside = burst
    (engine,) = door.engines
    engine.close()
    wait_until(lambda: door.up() == 0, "HAProxy gives the replica up")
    assert door.call().status == 200
    outside.shows(OTHER)
    assert door.call().status == 503
    assert len(outside.seen) == 1
