"""The own vLLM server keeps its contract, run against an engine that only pretends; a stack deploys it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml

from servingstack.engines.vllm_limits import LIMITS, UPSTREAM, VERSION

FOLDER = Path(__file__).resolve().parents[2] / "examples/vllm-server"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vllm_server_example", FOLDER / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are resolved in it
    spec.loader.exec_module(module)
    return module


server = _load()


class FakeEngine:
    """Answers after a delay, and remembers what it was asked and what was aborted."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.asked: list[tuple[str, Any]] = []
        self.aborted: list[str] = []
        self.error: Exception | None = None
        self.dead = False

    async def generate(self, prompt: str, sampling_params: Any, request_id: str) -> AsyncGenerator[Any, None]:
        self.asked.append((prompt, sampling_params))
        if self.error is not None:
            raise self.error
        try:
            await asyncio.sleep(self.delay_s)
        except (asyncio.CancelledError, GeneratorExit):  # as AsyncLLM.generate does
            self.aborted.append(request_id)
            raise
        tokens = list(range(min(sampling_params["max_tokens"], 5)))
        yield SimpleNamespace(outputs=[SimpleNamespace(text="an answer", token_ids=tokens)])

    async def check_health(self) -> None:
        if self.dead:
            raise RuntimeError("gone")


def sampling(max_tokens: int, temperature: float, top_p: float) -> dict[str, Any]:
    return {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p}


@asynccontextmanager
async def running(engine: FakeEngine, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = server.create_app(engine, sampling, **options)
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://server") as client,
    ):
        yield client


async def warm(client: httpx.AsyncClient) -> None:
    for _ in range(200):
        if (await client.get("/health")).status_code == 200:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("never ready")


def test_an_answer_has_an_id_the_text_and_the_number_of_tokens() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with running(engine) as client:
            await warm(client)
            answer = await client.post("/v1/completions", json={"prompt": "Hello"})
            assert answer.status_code == 200
            body = answer.json()
            assert set(body) == {"id", "text", "tokens_generated"}
            assert body["id"].startswith("cmpl-")
            assert (body["text"], body["tokens_generated"]) == ("an answer", 5)
            assert engine.asked[-1] == ("Hello", {"max_tokens": 512, "temperature": 0.7, "top_p": 0.95})

    asyncio.run(scenario())


def test_what_is_given_reaches_the_engine_and_other_fields_are_ignored() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with running(engine) as client:
            await warm(client)
            body = {"prompt": "x", "max_tokens": 2, "temperature": 0, "top_p": 0.5, "model": "m"}
            answer = await client.post("/v1/completions", json=body)
            assert answer.json()["tokens_generated"] == 2
            assert engine.asked[-1] == ("x", {"max_tokens": 2, "temperature": 0, "top_p": 0.5})

    asyncio.run(scenario())


def test_it_is_not_ready_before_the_warm_up_is_through() -> None:
    async def scenario() -> None:
        engine = FakeEngine(delay_s=0.05)
        async with running(engine) as client:
            assert (await client.get("/health")).status_code == 503
            assert (await client.post("/v1/completions", json={"prompt": "x"})).status_code == 503
            await warm(client)
            assert len(engine.asked) == server.WARM_UP_REQUESTS

    asyncio.run(scenario())


def test_a_warm_up_that_fails_leaves_it_unready(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        engine.error = RuntimeError("no kernel image")
        async with running(engine) as client:
            await asyncio.sleep(0.05)
            assert (await client.get("/health")).status_code == 503

    asyncio.run(scenario())
    assert "warm-up failed" in caplog.text


def test_after_the_time_limit_the_answer_is_504_and_the_engine_has_stopped() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with running(engine, timeout_s=0.05) as client:
            await warm(client)
            engine.delay_s = 10
            answer = await client.post("/v1/completions", json={"prompt": "x"})
            assert answer.status_code == 504
            assert len(engine.aborted) == 1

    asyncio.run(scenario())
    assert server.TIMEOUT_S == 30


def test_a_client_that_hangs_up_frees_the_engine() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        app = server.create_app(engine, sampling)
        body = b'{"prompt": "x"}'
        messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]

        async def receive() -> dict[str, Any]:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            return None

        scope = {
            "type": "http", "method": "POST", "path": "/v1/completions", "raw_path": b"/v1/completions",
            "query_string": b"", "headers": [(b"content-type", b"application/json")], "http_version": "1.1",
            "scheme": "http", "server": ("server", 80), "client": ("c", 1), "root_path": "",
        }  # fmt: skip
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0.05)
            engine.delay_s = 10
            await asyncio.wait_for(app(scope, receive, send), timeout=2)
        assert len(engine.aborted) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": ""},
        {"prompt": 5},
        {"prompt": "x", "max_tokens": 0},
        {"prompt": "x", "temperature": -1},
        {"prompt": "x", "top_p": 0},
        {"prompt": "x", "top_p": 1.1},
    ],
)
def test_a_request_of_the_wrong_form_is_422_and_never_reaches_the_engine(body: dict[str, Any]) -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with running(engine) as client:
            await warm(client)
            before = len(engine.asked)
            assert (await client.post("/v1/completions", json=body)).status_code == 422
            assert len(engine.asked) == before

    asyncio.run(scenario())


def test_what_the_engine_refuses_is_400_and_a_dead_engine_is_unhealthy() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with running(engine) as client:
            await warm(client)
            engine.error = ValueError("the prompt is longer than 8192 tokens")
            answer = await client.post("/v1/completions", json={"prompt": "x"})
            assert (answer.status_code, answer.json()["detail"]) == (400, str(engine.error))
            engine.dead = True
            assert (await client.get("/health")).status_code == 503

    asyncio.run(scenario())


def test_the_api_key_of_the_stack_is_asked_for_and_health_is_not_guarded() -> None:
    async def scenario() -> None:
        async with running(FakeEngine(), api_key="secret") as client:
            await warm(client)
            body = {"prompt": "x"}
            assert (await client.post("/v1/completions", json=body)).status_code == 401
            wrong = {"authorization": "Bearer wrong"}
            assert (await client.post("/v1/completions", json=body, headers=wrong)).status_code == 401
            right = {"authorization": "Bearer secret"}
            assert (await client.post("/v1/completions", json=body, headers=right)).status_code == 200

    asyncio.run(scenario())


def test_many_requests_run_at_once() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        async with running(engine) as client:
            await warm(client)
            engine.delay_s = 0.2
            loop = asyncio.get_running_loop()
            started = loop.time()
            answers = await asyncio.gather(
                *(client.post("/v1/completions", json={"prompt": str(i)}) for i in range(20))
            )
            assert loop.time() - started < 2, "one after the other would take 4 s"
            assert len({answer.json()["id"] for answer in answers}) == 20

    asyncio.run(scenario())


class TestTheImage:
    def test_it_builds_on_the_pinned_release(self) -> None:
        text = (FOLDER / "Dockerfile").read_text()
        assert f"FROM {UPSTREAM.reference}" in text
        assert f"v{VERSION}" in text

    def test_serve_starts_the_own_server_and_everything_else_is_vllms(self, tmp_path: Path) -> None:
        script = (FOLDER / "vllm").read_text().replace("/usr/local/bin/vllm", "echo original")
        shim = tmp_path / "vllm"
        shim.write_text(script.replace("python3 /opt/server/server.py", "echo own"))
        shim.chmod(0o755)

        def call(*arguments: str) -> str:
            done = subprocess.run(
                [shim, *arguments], check=True, capture_output=True, text=True, env=os.environ
            )
            return done.stdout.strip()

        assert call("serve", "x/y", "--port=8000", "--a b") == "own x/y --port=8000 --a b"
        assert call("bench", "serve", "--model", "x") == "original bench serve --model x"


def test_the_stack_names_the_image_and_nothing_else_is_needed() -> None:
    from servingstack.planner import plan

    document = yaml.safe_load((FOLDER / "stack.yaml").read_text())
    assert LIMITS.version_of(document["engine"]["image"]) == VERSION
    planned = plan(document)
    assert planned.container.image == document["engine"]["image"]
    assert planned.container.command[:2] == ("vllm", "serve")
    assert planned.container.warm_up.path == "/v1/completions", "which the own server answers too"
    assert planned.timeouts.request_s == 30
    assert planned.architecture.engine_version == VERSION
