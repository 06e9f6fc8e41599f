# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The web site of a laboratory: the page, and the routes of JSON and files that it reads, with who may ask for them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import hashlib
import hmac
import json
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perigee.errors import InputError, PerigeeError
from perigee.laboratory.access import SESSION_S, Person
from perigee.laboratory.api import compiler, downloads, graphs, links, machines, queue, results, studies
from perigee.laboratory.api.visit import Awaited, Laboratory, Visit
from perigee.laboratory.doors import network_of
from perigee.laboratory.guard import Budget, Guard, Limits
from perigee.laboratory.lanes import BusyError, Lane
from perigee.laboratory.live import Live
from perigee.laboratory.page import page
from perigee.version import __version__

LOG = logging.getLogger("perigee.laboratory")

COOKIE = "perigee-session"
FORMS = "x-perigee-forms"
"""Header that has what the requests of a session carry which change something."""
MOST_FIELDS = 1000
TRIES_PER_S, TRIES = 1 / 12, 10.0
"""Wrong tokens of one address: five a minute on the average, and ten at once."""
EVENT_EVERY_S = 1.0
STREAM_S = 600.0
"""After this time a browser asks again."""
KNOWN_EVERY_S = 3.0
"""How often a stream asks whether its session goes on."""
MOST_STREAMS = 128
STREAMS_BY_ADDRESS = 64

Endpoint = Callable[[Request], Awaitable[Response]]


class Served(NamedTuple):
    """A route of the site.

    Attributes:
        method: of its requests; `POST` changes or starts something.
        path: its address.
        role: what a person must have at least; empty: anybody may ask, also who is not signed in.
        lane: the lane of the laboratory in which requests wait that take a thread for long; empty: they do not wait.
        answer: what answers: a `Handler`, or for anybody a method of `Site`.
    """

    method: str
    path: str
    role: str
    lane: str
    answer: Callable[..., Any]


class Site:
    """The web application.

    Args:
        laboratory: what is shown.
        hosts: the names by which it is reached; empty: any.
        secure: whether it is reached by TLS.
        limits: what a client may ask for.
    """

    def __init__(
        self, laboratory: Laboratory, hosts: frozenset[str], *, secure: bool = False, limits: Limits | None = None
    ) -> None:
        self._laboratory = laboratory
        self._secure = secure
        self._wrong_tokens = Budget(TRIES_PER_S, TRIES)
        self._streams: Counter[str] = Counter()
        self._found: tuple[float, asyncio.Future[str]] | None = None
        self._live = Live(laboratory)
        routes = [Route(one.path, self._endpoint(one), methods=[one.method]) for one in ROUTES]
        inner = Starlette(routes=routes, exception_handlers={404: self._missing, Exception: self._broken})
        self.app = Guard(inner, hosts, limits or Limits())

    def _person(self, request: Request) -> Person | None:
        """Return who asks; their connection is a guest's then."""
        token = _bearer(request)
        access = self._laboratory.access
        person = access.of_session(request.cookies.get(COOKIE, "")) if token is None else access.with_token(token)
        if person is not None and request.client is not None:
            self._laboratory.guests.know((request.client.host, request.client.port))
        return person

    def _endpoint(self, served: Served) -> Endpoint:
        if not served.role:
            return functools.partial(served.answer, self)
        lane: Lane | None = getattr(self._laboratory, served.lane) if served.lane else None

        async def endpoint(request: Request) -> Response:
            person = self._person(request)
            if person is None:
                return self._strangers(request)
            if not person.may(served.role):
                return self._refused(request, 403, "You may look, and not change anything here.")
            form: dict[str, list[str]] = {}
            if request.method == "POST":
                if not self._is_own_origin(request):
                    return self._refused(request, 403, "This form is of another site.")
                form = await _form(request)
                token = request.headers.get(FORMS, "")
                if person.forms and not hmac.compare_digest(token.encode(), person.forms.encode()):
                    return self._refused(request, 403, "This page is of an earlier session; load it again.")
            visit = Visit(self._laboratory, person, request.path_params, request.query_params, form)
            # Networks tell those who share a link apart.
            who = network_of(_client(request)) if person.by_link else person.name
            try:
                async with contextlib.nullcontext() if lane is None else lane.of(who):
                    answer = await run_in_threadpool(served.answer, visit)
                if isinstance(answer, Awaited):
                    await answer.by.run(*answer.arguments, who=who)
                    answer = answer.then()
            except BusyError as error:
                LOG.warning("%s %r of %s: busy", request.method, request.url.path, _client(request))
                return _json({"error": str(error)}, 503, {"retry-after": "60"})
            except PerigeeError as error:
                status = 404 if request.method == "GET" and isinstance(error, InputError) else 422
                return self._refused(request, status, str(error))
            if lane is not None and isinstance(answer, StreamingResponse):
                answer.body_iterator = _in_turns(aiter(answer.body_iterator), lane, who)
            return answer if isinstance(answer, Response) else _json(answer)

        return endpoint

    def _strangers(self, request: Request) -> Response:
        # A right token is right however many wrong ones its address has given: 128 bits are not guessed.
        if refused := self._too_many_wrong(request):
            return refused
        LOG.warning("%s %r of %s: no valid token", request.method, request.url.path, _client(request))
        why = "Your link is needed: open it, or paste it on this page."
        return _json({"error": why}, 401, {"www-authenticate": "Bearer"})

    def _too_many_wrong(self, request: Request) -> Response | None:
        """Return the refusal of a stranger whose address has given too many wrong tokens; none where it may go on."""
        if _bearer(request) is None or self._wrong_tokens.take(_client(request), time.monotonic()):
            return None
        return _json({"error": "too many wrong tokens; wait a minute"}, 429, {"retry-after": "60"})

    def _refused(self, request: Request, status: int, why: str) -> Response:
        if status == 403:
            LOG.warning("%s %r of %s: %s", request.method, request.url.path, _client(request), why)
        return _json({"error": why}, status)

    def _is_own_origin(self, request: Request) -> bool:
        """Whether a form was sent by a page of this site; programs send no origin."""
        origin = request.headers.get("origin")
        if origin is None:
            return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return origin == f"{'https' if self._secure else 'http'}://{request.headers.get('host', '')}"

    async def _page(self, request: Request) -> Response:
        """Send the page, which is the same for everybody: what is whose it asks for."""
        text, tag = await run_in_threadpool(packed_page)
        # The page has its own policy in it, which says nothing of frames around it.
        policy = "frame-ancestors 'none'"
        headers = {
            "cache-control": "no-cache",
            "content-security-policy": policy,
            "etag": tag,
            "vary": "accept-encoding",
        }
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(gzip.decompress(text), 200, headers, "text/html")
        return Response(text, 200, {**headers, "content-encoding": "gzip"}, "text/html")

    async def _me(self, request: Request) -> Response:
        """Tell who asks, and what that person's requests carry."""
        person = self._person(request)
        if person is None and (refused := self._too_many_wrong(request)):
            return refused
        return _json(
            {
                "person": person and {"title": person.title, "role": person.role, "quota": person.quota},
                "forms": person.forms if person else "",
                "version": __version__,
                "is_root": os.geteuid() == 0,
                "now": time.time(),
                "compiler": await run_in_threadpool(compiler.offered, person),
            }
        )

    async def _followed(self, request: Request) -> Response:
        """Sign in who has followed a link, and go on to the page."""
        token = request.query_params.get("token", "")
        if request.headers.get("sec-fetch-site", "none") != "none":
            # A page, or a report in one of this site, would choose whose session this browser has: the page asks first.
            return RedirectResponse(f"/#/enter?why=site&token={quote(token)}", 303)
        answer = self._signed_in(request, token, RedirectResponse("/", 303))
        return answer if answer.status_code == 303 else RedirectResponse("/#/enter?why=wrong", 303)

    async def _enter(self, request: Request) -> Response:
        """Sign in who gives a token, or a link that has one."""
        if not self._is_own_origin(request):
            return self._refused(request, 403, "This form is of another site.")
        given = (await _form(request)).get("secret", [""])[0].strip()
        try:
            token = parse_qs(urlsplit(given).query).get("token", [given])[0]
        except ValueError:
            # No address, so no link of the laboratory: as wrong as any other token.
            token = given
        return self._signed_in(request, token, _json({}))

    def _signed_in(self, request: Request, token: str, answer: Response) -> Response:
        """Return an answer with a session for a token, or a refusal."""
        access = self._laboratory.access
        person = access.with_token(token)
        if person is None:
            if not self._wrong_tokens.take(_client(request), time.monotonic()):
                LOG.warning("too many wrong tokens of %s", _client(request))
                return _json({"error": "Too many tries; wait a minute."}, 429)
            LOG.warning("wrong token of %s", _client(request))
            return _json({"error": "No link of this laboratory has that token."}, 422)
        answer.set_cookie(
            COOKIE, access.session(person, token), SESSION_S, httponly=True, samesite="strict", secure=self._secure
        )
        return answer

    async def _leave(self, request: Request) -> Response:
        if not self._is_own_origin(request):
            return self._refused(request, 403, "This form is of another site.")
        await run_in_threadpool(self._laboratory.access.end, request.cookies.get(COOKIE, ""))
        answer = _json({})
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=self._secure)
        return answer

    async def _events(self, request: Request) -> Response:
        """Stream the state of the queue and of the entry that runs, see `Live.state`."""
        if self._person(request) is None:
            return self._strangers(request)
        network = network_of(_client(request))
        if self._streams.total() >= MOST_STREAMS or self._streams[network] >= STREAMS_BY_ADDRESS:
            return _json({"error": "too many pages follow the queue"}, 503, {"retry-after": "60"})
        self._streams[network] += 1
        return _Counted(self._stream(request), lambda: self._ended(network))

    def _ended(self, network: str) -> None:
        """Count a stream no more."""
        self._streams[network] -= 1
        # Without those that have none.
        self._streams = +self._streams

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        now = known = time.monotonic()
        until, before = now + STREAM_S, ""
        while now < until:
            if now >= known + KNOWN_EVERY_S:
                if self._person(request) is None:
                    return
                known = now
            state = await self._shared_state()
            # A comment shows whether somebody is still there.
            yield f"data: {state}\n\n" if state != before else ": nothing new\n\n"
            before = state
            await asyncio.sleep(EVENT_EVERY_S)
            now = time.monotonic()

    async def _shared_state(self) -> str:
        """Return the state as JSON; all streams share what was found out within the last `EVENT_EVERY_S`."""
        now = time.monotonic()
        if self._found is None or now - self._found[0] >= EVENT_EVERY_S:
            self._found = now, asyncio.ensure_future(run_in_threadpool(lambda: json.dumps(self._live.state())))
        # A stream that ends takes nothing from the others.
        return await asyncio.shield(self._found[1])

    async def _missing(self, request: Request, _error: Exception) -> Response:
        return _json({"error": "Nothing is at this address."}, 404)

    async def _broken(self, request: Request, error: Exception) -> Response:
        LOG.error("%s %r: %r", request.method, request.url.path, error)
        return _json({"error": "This is broken; the log of the server says more."}, 500)


class _Counted(StreamingResponse):
    """A stream of events that says when it is over, also where nobody has taken any of it."""

    def __init__(self, events: AsyncIterator[str], over: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


async def _in_turns(parts: AsyncIterator[Any], lane: Lane, who: str) -> AsyncIterator[Any]:
    """Make each part of an answer in a lane, and leave it meanwhile: who takes a part slowly keeps no other waiting."""
    while True:
        async with lane.of(who):
            part = await anext(parts, None)
        if part is None:
            return
        yield part


def packed_page() -> tuple[bytes, str]:
    """Return the page compressed, and the tag that its cached copies have."""
    return _compressed(page("served"))


@functools.lru_cache(maxsize=1)
def _compressed(text: str) -> tuple[bytes, str]:
    return gzip.compress(text.encode(), 6), f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'


def _json(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(content, status, headers)


def _bearer(request: Request) -> str | None:
    """Return the token that a program gives with its request; none where it gives none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else None


async def _form(request: Request) -> dict[str, list[str]]:
    body = (await request.body()).decode(errors="replace")
    try:
        return parse_qs(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}


def _client(request: Request) -> str:
    return request.client.host if request.client else "?"


ROUTES = (
    Served("GET", "/", "", "", Site._page),
    Served("GET", "/enter", "", "", Site._followed),
    Served("POST", "/api/enter", "", "", Site._enter),
    Served("POST", "/api/leave", "", "", Site._leave),
    Served("GET", "/api/me", "", "", Site._me),
    Served("GET", "/api/events", "", "", Site._events),
    Served("GET", "/api/studies", "look", "", studies.studies),
    Served("GET", "/api/studies/{name}", "look", "", studies.study),
    Served("GET", "/api/completion", "look", "", studies.completion),
    Served("GET", "/api/template", "run", "", studies.template),
    Served("POST", "/api/studies", "run", "planning", studies.save),
    Served("POST", "/api/check", "run", "planning", studies.check),
    Served("POST", "/api/studies/{name}/queue", "run", "planning", studies.queue),
    Served("POST", "/api/studies/{name}/outlook", "run", "planning", studies.outlook),
    Served("GET", "/api/queue", "look", "", queue.queue),
    Served("GET", "/api/queue/{number}", "look", "", queue.entry),
    Served("POST", "/api/queue/{number}/{action}", "run", "", queue.act),
    Served("GET", "/api/results", "look", "reading", results.results),
    Served("GET", "/api/results/{name}", "look", "reading", results.result),
    Served("GET", "/api/results/{name}/graphs", "look", "reading", graphs.graphs),
    Served("GET", "/api/results/{name}/graph", "look", "reading", graphs.data),
    Served("GET", "/api/results/{name}/tables/{table}", "look", "reading", results.rows),
    Served("POST", "/api/results/{name}/labels", "run", "", results.label),
    Served("POST", "/api/results/{name}/report", "run", "", results.make_report),
    Served("POST", "/api/compare", "run", "", results.compare),
    Served("GET", "/api/compared/{key}", "look", "", results.compared),
    Served("GET", "/api/links", "look", "", links.links),
    Served("GET", "/api/links/{name}", "look", "", links.link),
    Served("GET", "/api/algorithms", "look", "", links.algorithms),
    Served("GET", "/api/algorithms/{name}", "look", "", links.algorithm),
    Served("GET", "/api/standing", "look", "", links.standing),
    Served("GET", "/api/machines", "look", "", machines.machines),
    Served("POST", "/api/compile", "run", "compiling", compiler.module),
    Served("GET", "/files/results/{name}/report.html", "look", "reading", downloads.report),
    Served("GET", "/files/results/{name}/figure.svg", "look", "reading", downloads.figure),
    Served("GET", "/files/results/{name}/tables/{file}", "look", "downloads", downloads.table),
    Served("GET", "/files/results/{name}/{what}.zip", "look", "downloads", downloads.archive),
)
"""All that the site answers. Those for anybody tell a stranger nothing but that a link is needed."""
