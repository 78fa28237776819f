"""Measure a live OpenAI-compatible endpoint: streamed completions at constant concurrency, level after level.

Each level has three phases, and only the middle one is counted: the first request of every worker (all start
at once, so their prompts queue behind each other), then the counted ones, then requests that only keep the
concurrency up until the last counted one is through. Throughput is concurrency / mean latency (Little's law),
which a start or an end cannot distort. Warm-up requests before the first level are counted nowhere.

Traps:
- Equal prompts would be served from the prefix cache; every prompt is different from its first word on.
- A chunk of a stream may hold several tokens. Tokens are counted by the server (`usage`), not by chunks.
- Each request has a connection of its own: a proxy that drains closes idle ones, which would be failures.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from servingstack.measured import MeasuredRow, MeasuredTable, Spread

CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)
WORDS = (
    "river",
    "stone",
    "lamp",
    "cloud",
    "garden",
    "paper",
    "window",
    "engine",
    "silver",
    "forest",
    "bridge",
)
"""Common words, about one token each in every tokenizer; the server says how many it counted."""
MOST_FAILED = 0.1
"""A level with a larger share of failures is no measurement, and the sweep ends before it."""
PAUSE_S = 0.1
"""After a failure, so that a server that refuses at once is not asked ten thousand times."""
_STEP_TOKENS = 8
"""Length of the answer of the request that learns how many tokens a word has."""


class BenchError(Exception):
    """The endpoint could not be measured; the text says why."""


@dataclass(frozen=True)
class Wanted:
    """What to measure."""

    url: str
    """Base of the API, with or without `/v1`."""
    model: str | None = None
    """Model to ask for. Default: the first that the server lists."""
    input_tokens: int = 1024
    output_tokens: int = 256
    concurrency: tuple[int, ...] = CONCURRENCY
    requests: int = 32
    """Counted requests of each level, at least twice its concurrency."""
    warm_up: int = 3
    timeout_s: float = 120.0
    """Of one request."""
    replicas: int = 1
    """Replicas behind the address."""
    ignore_eos: bool = True
    """Whether every answer has its full length; a server that does not know the field refuses it."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered request, seconds."""

    ttft_s: float
    latency_s: float
    prompt_tokens: int
    tokens: int

    @property
    def tpot_s(self) -> float | None:
        """Mean time per token after the first; None for a single token."""
        return (self.latency_s - self.ttft_s) / (self.tokens - 1) if self.tokens > 1 else None


class Client:
    """Sends one request at a time for each of many threads."""

    def __init__(self, wanted: Wanted, api_key: str | None) -> None:
        parts = urlsplit(wanted.url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise BenchError(f"{wanted.url!r} is no http:// or https:// address")
        self.host, self.port, self.secure = parts.hostname, parts.port, parts.scheme == "https"
        self.base = parts.path.rstrip("/").removesuffix("/v1")
        self.timeout_s = wanted.timeout_s
        self.headers = {"Content-Type": "application/json", "Connection": "close"}
        if api_key is not None:
            self.headers["Authorization"] = f"Bearer {api_key}"

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=self.timeout_s)

    def models(self) -> list[str]:
        """Names that the server lists."""
        connection = self._connect()
        try:
            connection.request("GET", f"{self.base}/v1/models", headers=self.headers)
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise BenchError(f"{self.base}/v1/models answered {response.status}: {_short(text)}")
            return [str(item["id"]) for item in json.loads(text)["data"]]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"no list of models at {self.host}: {error}") from error
        finally:
            connection.close()

    def complete(self, body: dict[str, Any]) -> Answer:
        """One streamed completion, timed. Raises BenchError for anything but a whole answer."""
        connection = self._connect()
        started = time.perf_counter()
        try:
            connection.request("POST", f"{self.base}/v1/completions", json.dumps(body), self.headers)
            response = connection.getresponse()
            if response.status != 200:
                raise BenchError(f"status {response.status}: {_short(response.read())}")
            return _timed(response, started, started + self.timeout_s)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()


def _timed(response: http.client.HTTPResponse, started: float, limit: float) -> Answer:
    """Read server-sent events to the end. The time limit holds for the whole, not for each read."""
    first = last = None
    chunks, usage = 0, cast("dict[str, Any]", {})
    while line := response.readline():
        now = time.perf_counter()
        if now > limit:
            raise BenchError("the answer took longer than the time limit")
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        if "error" in event:
            raise BenchError(f"the stream ended with {_short(json.dumps(event['error']).encode())}")
        usage = event.get("usage") or usage
        if any(choice.get("text") for choice in event.get("choices", ())):
            first, last, chunks = (now if first is None else first), now, chunks + 1
    if first is None or last is None:
        raise BenchError("an answer without a token")
    tokens = int(usage.get("completion_tokens", chunks))
    return Answer(first - started, last - started, int(usage.get("prompt_tokens", 0)), tokens)


def _short(text: bytes) -> str:
    return text[:200].decode(errors="replace").strip()


@dataclass
class Level:
    """One concurrency, while it runs."""

    concurrency: int
    counted: int
    """Requests to count."""
    answers: list[Answer] = field(default_factory=list[Answer])
    errors: list[str] = field(default_factory=list[str])
    started: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self) -> int | None:
        """Number of the next request, or None once every counted one is through."""
        with self.lock:
            if len(self.answers) + len(self.errors) >= self.counted:
                return None
            self.started += 1
            return self.started - 1

    def finished(self, number: int, outcome: Answer | str) -> None:
        """Note an answer or an error, if the request is one of the middle phase."""
        if not self.concurrency <= number < self.concurrency + self.counted:
            return
        with self.lock:
            if isinstance(outcome, str):
                self.errors.append(outcome)
            else:
                self.answers.append(outcome)


class Bench:
    """A sweep over one endpoint."""

    def __init__(self, wanted: Wanted, api_key: str | None = None) -> None:
        self.wanted = wanted
        self.client = Client(wanted, api_key)
        self.model = ""
        self.words = wanted.input_tokens
        self.prompt_tokens: list[int] = []
        self.answer_tokens: list[int] = []

    def run(self, say: Callable[[str], None]) -> MeasuredTable:
        """Warm up, then measure every level. Raises BenchError where not even the first can be measured."""
        self.model = self.wanted.model if self.wanted.model is not None else self._only_model()
        self._warm_up()
        rows: list[MeasuredRow] = []
        notes: list[str] = []
        for concurrency in sorted(set(self.wanted.concurrency)):
            level = self._level(concurrency)
            share = len(level.errors) / level.counted
            if share > MOST_FAILED or not level.answers:
                reason = f"ended at concurrency {concurrency}: {share:.0%} failed, {level.errors[0]}"
                if not rows:
                    raise BenchError(reason)
                notes.append(reason)
                say(reason)
                break
            rows.append(self._row(level))
            say(_line(rows[-1]))
        return self._table(rows, notes)

    def _only_model(self) -> str:
        names = self.client.models()
        if not names:
            raise BenchError("the server lists no model; name one")
        return names[0]

    def _body(self, prompt: str, tokens: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | ({"ignore_eos": True} if self.wanted.ignore_eos else {})

    def _prompt(self, number: int) -> str:
        source = random.Random(f"{self.wanted.seed}/{number}")  # nothing here is a secret
        return " ".join([str(source.randrange(10**6)), *source.choices(WORDS, k=max(1, self.words - 3))])

    def _warm_up(self) -> None:
        """Uncounted requests; the first also tells how many tokens the words have."""
        tokens = min(_STEP_TOKENS, self.wanted.output_tokens)
        seen = self.client.complete(self._body(self._prompt(-1), tokens)).prompt_tokens
        if seen > 0:
            self.words = max(1, round(self.words * self.wanted.input_tokens / seen))
        for number in range(self.wanted.warm_up):
            self.client.complete(self._body(self._prompt(-2 - number), self.wanted.output_tokens))

    def _level(self, concurrency: int) -> Level:
        level = Level(concurrency, max(self.wanted.requests, 2 * concurrency))
        workers = [
            threading.Thread(target=self._work, args=(level,), daemon=True) for _ in range(concurrency)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return level

    def _work(self, level: Level) -> None:
        while (number := level.next()) is not None:
            body = self._body(self._prompt(level.concurrency * 10**6 + number), self.wanted.output_tokens)
            try:
                level.finished(number, self.client.complete(body))
            except BenchError as error:
                level.finished(number, str(error))
                time.sleep(PAUSE_S)

    def _row(self, level: Level) -> MeasuredRow:
        answers, replicas = level.answers, self.wanted.replicas
        self.prompt_tokens += [answer.prompt_tokens for answer in answers if answer.prompt_tokens]
        self.answer_tokens += [answer.tokens for answer in answers]
        latency = statistics.fmean(answer.latency_s for answer in answers)
        rate = level.concurrency / latency / replicas
        tokens = statistics.fmean(answer.tokens for answer in answers)
        per_token = [tpot * 1000 for answer in answers if (tpot := answer.tpot_s) is not None]
        return MeasuredRow(
            concurrency=level.concurrency / replicas,
            requests_per_s=rate,
            output_tokens_per_s=rate * tokens,
            ttft_ms=spread([answer.ttft_s * 1000 for answer in answers]),
            tpot_ms=spread(per_token) if per_token else None,
            latency_ms=spread([answer.latency_s * 1000 for answer in answers]),
            requests=len(answers),
            failed=len(level.errors),
        )

    def _table(self, rows: list[MeasuredRow], notes: list[str]) -> MeasuredTable:
        return MeasuredTable(
            rows=tuple(rows),
            model=self.model,
            input_tokens=statistics.fmean(self.prompt_tokens) if self.prompt_tokens else None,
            output_tokens=statistics.fmean(self.answer_tokens),
            replicas=self.wanted.replicas,
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            notes=tuple(notes),
        )


def spread(values: Sequence[float]) -> Spread:
    """Mean and percentiles, by nearest rank: each is a value that was seen. ValueError without values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)

    def rank(q: float) -> float:
        return round(ordered[math.ceil(q * len(ordered)) - 1], 3)

    return Spread(mean=round(statistics.fmean(ordered), 3), p50=rank(0.5), p95=rank(0.95), p99=rank(0.99))


def _line(row: MeasuredRow) -> str:
    ttft = "" if row.ttft_ms is None else f", ttft p95 {row.ttft_ms.p95:.0f} ms"
    tpot = "" if row.tpot_ms is None else f", tpot p95 {row.tpot_ms.p95:.1f} ms"
    failed = f", {row.failed} failed" if row.failed else ""
    return f"concurrency {row.concurrency:g}: {row.requests_per_s:.3g} requests/s{ttft}{tpot}{failed}"
