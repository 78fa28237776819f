"""An own server over vLLM's engine: POST /v1/completions, GET /health, GET /metrics.

It takes the command line of `vllm serve`, so a stack deploys it by naming its image and nothing else changes.
vLLM is imported in `build` alone: the contract runs against any engine that has `generate`.

Traps:
- Cancelling `generate` aborts the request in the engine (v1/engine/async_llm.py, 0.30.0). A time limit that
  only stops waiting would leave the GPU busy for an answer that nobody reads.
- FastAPI does not cancel a handler whose client has gone; `_gone` watches for that.
- `/health` says 503 until the warm-up is through, and again when the engine has died.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

TIMEOUT_S = 30.0
"""Longest time of a request, from its arrival to its whole answer."""
WARM_UP_TOKENS = 16
WARM_UP_REQUESTS = 2
"""The first compiles what is compiled lazily, the second proves it."""


class Engine(Protocol):
    """What is used of `vllm.AsyncLLMEngine`."""

    def generate(self, prompt: Any, sampling_params: Any, request_id: str) -> AsyncGenerator[Any, None]: ...
    async def check_health(self) -> None: ...


class Completion(BaseModel):
    """A request. Other fields, such as the `model` that OpenAI's clients send, are ignored."""

    prompt: str = Field(min_length=1)
    max_tokens: int = Field(default=512, ge=1)
    temperature: float = Field(default=0.7, ge=0, le=2)
    top_p: float = Field(default=0.95, gt=0, le=1)


class Answer(BaseModel):
    """The whole answer."""

    id: str
    text: str
    tokens_generated: int


Sampling = Callable[[int, float, float], Any]
"""(max_tokens, temperature, top_p) -> the engine's own parameters."""


class Service:
    """The engine with its warm-up, its time limit and what each failure is called."""

    def __init__(
        self, engine: Engine, sampling: Sampling, timeout_s: float, refused: tuple[type[Exception], ...]
    ) -> None:
        self.engine, self.sampling, self.timeout_s, self.refused = engine, sampling, timeout_s, refused
        self.warm = False

    async def answer(self, wanted: Completion, request_id: str) -> Answer:
        """The engine's whole answer."""
        params = self.sampling(wanted.max_tokens, wanted.temperature, wanted.top_p)
        generated = self.engine.generate(wanted.prompt, params, request_id)
        async with contextlib.aclosing(generated) as outputs:
            every = [output async for output in outputs]  # one, with FINAL_ONLY
        [best] = every[-1].outputs
        return Answer(id=request_id, text=best.text, tokens_generated=len(best.token_ids))

    async def warm_up(self) -> None:
        """Requests that no client waits for."""
        try:
            for _ in range(WARM_UP_REQUESTS):
                wanted = Completion(prompt="Say hello.", max_tokens=WARM_UP_TOKENS)
                await self.answer(wanted, f"warm-up-{uuid.uuid4().hex}")
        except Exception:
            logging.exception("The warm-up failed; this replica will never be ready.")
        else:
            self.warm = True

    async def check(self) -> None:
        """Raises 503 before the warm-up is through, and once the engine has died."""
        if not self.warm:
            raise HTTPException(503, "warming up")
        try:
            await self.engine.check_health()
        except Exception as error:
            raise HTTPException(503, f"the engine has died: {error}") from error

    async def complete(self, wanted: Completion, request: Request) -> Answer:
        """The answer within the time limit, or the HTTP error that says why not."""
        if not self.warm:
            raise HTTPException(503, "warming up")
        try:
            async with asyncio.timeout(self.timeout_s):
                return await _unless_gone(request, self.answer(wanted, f"cmpl-{uuid.uuid4().hex}"))
        except TimeoutError as error:
            raise HTTPException(504, f"No whole answer within {self.timeout_s:g} s.") from error
        except self.refused as error:
            raise HTTPException(400, str(error)) from error


def create_app(
    engine: Engine,
    sampling: Sampling,
    *,
    timeout_s: float = TIMEOUT_S,
    api_key: str | None = None,
    refused: tuple[type[Exception], ...] = (ValueError,),
) -> FastAPI:
    """The application. `refused` are the engine's errors that mean a wrong request: answered with 400."""
    service = Service(engine, sampling, timeout_s, refused)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(service.warm_up())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    async def health() -> dict[str, str]:
        await service.check()
        return {"status": "ok"}

    @app.post("/v1/completions")
    async def completions(wanted: Completion, request: Request) -> Answer:
        given = request.headers.get("authorization", "").encode()
        if api_key is not None and not hmac.compare_digest(given, f"Bearer {api_key}".encode()):
            raise HTTPException(401, "A valid API key is needed.")
        return await service.complete(wanted, request)

    return app


async def _unless_gone(request: Request, work: Awaitable[Answer]) -> Answer:
    """The work's result; cancels it when the client hangs up, or when this is cancelled."""
    running, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise HTTPException(499, "The client closed the connection.")
        return await running
    finally:
        running.cancel()
        gone.cancel()
        await asyncio.gather(running, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def build(arguments: list[str]) -> tuple[FastAPI, Any]:
    """The application over a real engine, and the parsed arguments of `vllm serve`."""
    from vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.entrypoints.serve.instrumentator.metrics import attach_router
    from vllm.exceptions import VLLMClientError
    from vllm.sampling_params import RequestOutputKind
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    args = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
    args.model = args.model if args.model_tag is None else args.model_tag
    validate_parsed_serve_args(args)

    def sampling(max_tokens: int, temperature: float, top_p: float) -> Any:
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs.from_cli_args(args))
    refused = (ValueError, VLLMClientError)
    app = create_app(engine, sampling, api_key=os.environ.get("VLLM_API_KEY"), refused=refused)
    attach_router(app)  # /metrics, with vLLM's own names
    return app, args


async def serve(arguments: list[str]) -> None:
    """Start the engine in the loop that will use it, then answer until SIGTERM and drain."""
    import uvicorn

    app, args = build(arguments)
    drain_s = args.shutdown_timeout
    config = uvicorn.Config(
        app,
        host="0.0.0.0" if args.host is None else args.host,
        port=args.port,
        timeout_graceful_shutdown=drain_s if drain_s else None,
        timeout_keep_alive=int(os.environ.get("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "5")),
        access_log=False,
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    import sys

    asyncio.run(serve(sys.argv[1:]))
