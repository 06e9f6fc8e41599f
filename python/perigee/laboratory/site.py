# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The web site of a laboratory: addresses, sessions, roles and forms around the pages."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from perigee.errors import InputError, PerigeeError
from perigee.laboratory.access import SESSION_S, Person
from perigee.laboratory.doors import network_of
from perigee.laboratory.guard import Budget, Guard, Limits
from perigee.laboratory.lanes import BusyError, Lane
from perigee.laboratory.pages import agents, graphs, home, links, queue, reference, results, studies, tab
from perigee.laboratory.pages.visit import Awaited, Handler, Laboratory, Visit, render

LOG = logging.getLogger("perigee.laboratory")

COOKIE = "perigee-session"
MOST_FIELDS = 1000
TRIES_PER_S, TRIES = 1 / 12, 10.0
"""Passwords and tokens of one address: five a minute on the average, and ten at once."""
EVENT_EVERY_S = 1.0
STREAM_S = 600.0
"""After this time a browser asks again, so that a session that has ended is noticed."""
MOST_STREAMS = 128
STREAMS_BY_ADDRESS = 32

STATIC = Path(__file__).resolve().parent / "static"
FILES = {
    "look.css": (STATIC.parents[1] / "data" / "look.css", "text/css"),
    "laboratory.css": (STATIC / "laboratory.css", "text/css"),
    "icon.svg": (STATIC / "icon.svg", "image/svg+xml"),
    "laboratory.js": (STATIC / "laboratory.js", "text/javascript"),
    "results.js": (STATIC / "results.js", "text/javascript"),
    "study.js": (STATIC / "study.js", "text/javascript"),
    "editor.js": (STATIC / "editor.js", "text/javascript"),
    "editor.css": (STATIC / "editor.css", "text/css"),
    "codemirror.js": (STATIC / "codemirror" / "codemirror.js", "text/javascript"),
    "graph.js": (STATIC / "graph.js", "text/javascript"),
    "graph.css": (STATIC / "graph.css", "text/css"),
    "uPlot.esm.js": (STATIC / "uplot" / "uPlot.esm.js", "text/javascript"),
    "uPlot.min.css": (STATIC / "uplot" / "uPlot.min.css", "text/css"),
}
"""Files that pages load, by name: only these are sent."""

TITLES = {404: "No such page", 403: "Not allowed"}
"""Titles of refusals by their status."""

Endpoint = Callable[[Request], Awaitable[Response]]

GET: dict[str, Handler] = {
    "/": home.home,
    "/studies": studies.studies,
    "/studies/{name}": studies.study,
    "/reference": reference.reference,
    "/queue": queue.queue,
    "/queue/{number}": queue.entry,
    "/results": results.results,
    "/results/{name}": results.result,
    "/results/{name}/report": results.report,
    "/results/{name}/figure.svg": results.figure,
    "/results/{name}/tables/{file}": results.table,
    "/results/{name}/graphs": graphs.graphs,
    "/results/{name}/graph.bin": graphs.data,
    "/results/{name}/graph.svg": graphs.figure,
    "/results/{name}/{what}.zip": results.archive,
    "/compared/{key}": results.compared,
    "/compared/{key}/page": results.compared_page,
    "/agents": agents.agents,
    "/algorithms": links.algorithms,
    "/links": links.links,
    "/links/{name}": links.link,
    "/links/{name}/drawing.png": links.drawing,
    "/tab": tab.page,
}
"""Pages for everybody who may look at anything."""
GET_TO_RUN: dict[str, Handler] = {
    "/edit": studies.new,
    "/edit/{name}": studies.edit,
    "/completion.json": studies.completion,
}
POST: dict[str, Handler] = {
    "/studies": studies.save,
    "/check": studies.check,
    "/studies/{name}/queue": studies.queue,
    "/studies/{name}/outlook": studies.outlook,
    "/queue/{number}/{action}": queue.act,
    "/results/{name}/labels": results.label,
    "/results/{name}/report": results.make_report,
    "/compare": results.compare,
    "/tab/module": tab.module,
}
"""Requests that change or start something."""


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
        self._wrong_tokens, self._passwords = Budget(TRIES_PER_S, TRIES), Budget(TRIES_PER_S, TRIES)
        self._streams: Counter[str] = Counter()
        self._found: tuple[float, asyncio.Future[str]] | None = None
        self._graph, self._names = queue.LiveGraph(laboratory), queue.RunNames(laboratory)
        routes: list[BaseRoute] = [
            Route("/enter", self._enter, methods=["GET", "POST"]),
            Route("/leave", self._leave, methods=["POST"]),
            Route("/events", self._events),
            Route("/static/{name}", self._static),
        ]
        for role, method, handlers in (("look", "GET", GET), ("run", "GET", GET_TO_RUN), ("run", "POST", POST)):
            for path, handler in handlers.items():
                lane: Lane | None = None
                if method == "GET" and path.startswith("/results"):
                    lane = laboratory.reading
                elif handler is tab.module:
                    lane = laboratory.compiling
                elif method == "POST" and path.startswith(("/studies", "/check")):
                    lane = laboratory.planning
                routes.append(Route(path, self._page(handler, role, lane), methods=[method]))
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

    def _page(self, handler: Handler, role: str, lane: Lane | None) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            person = self._person(request)
            if person is None:
                return self._strangers(request)
            if not person.may(role):
                return self._refused(request, person, 403, "You may look, and not change anything here.")
            form: dict[str, list[str]] = {}
            if request.method == "POST":
                if not self._is_own_origin(request):
                    return self._refused(request, person, 403, "This form is of another site.")
                form = await _form(request)
                token = form.get("forms", [""])[0]
                if person.forms and not hmac.compare_digest(token.encode(), person.forms.encode()):
                    return self._refused(request, person, 403, "This form is too old; go back and load the page again.")
            visit = Visit(self._laboratory, person, request.path_params, request.query_params, form)
            # Networks tell those who share a link apart.
            who = network_of(_client(request)) if person.by_link else person.name
            try:
                async with contextlib.nullcontext() if lane is None else lane.of(who):
                    answer = await run_in_threadpool(handler, visit)
                if isinstance(answer, Awaited):
                    await answer.by.run(*answer.arguments, who=who)
                    answer = answer.then()
            except BusyError as error:
                return self._busy(request, error)
            except PerigeeError as error:
                status = 404 if request.method == "GET" and isinstance(error, InputError) else 422
                return self._refused(request, person, status, str(error))
            return answer

        return endpoint

    def _strangers(self, request: Request) -> Response:
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/enter", 303)
        # A right token is right however many wrong ones its address has given: 128 bits are not guessed.
        if _bearer(request) is not None and not self._wrong_tokens.take(_client(request), time.monotonic()):
            return PlainTextResponse("too many wrong tokens; wait a minute\n", 429, {"retry-after": "60"})
        LOG.warning("%s %r of %s: no valid token", request.method, request.url.path, _client(request))
        return PlainTextResponse("a token or a password is needed\n", 401, {"www-authenticate": "Bearer"})

    def _refused(self, request: Request, person: Person, status: int, why: str) -> Response:
        if status == 403:
            LOG.warning("%s %r of %s: %s", request.method, request.url.path, _client(request), why)
        title = TITLES.get(status, "That is not possible")
        return Visit(self._laboratory, person).page("message.html", status, title=title, why=why)

    def _busy(self, request: Request, error: BusyError) -> Response:
        LOG.warning("%s %r of %s: busy", request.method, request.url.path, _client(request))
        return PlainTextResponse(f"{error}\n", 503, {"retry-after": "60"})

    def _is_own_origin(self, request: Request) -> bool:
        """Whether a form was sent by a page of this site; programs send no origin."""
        origin = request.headers.get("origin")
        if origin is None:
            return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return origin == f"{'https' if self._secure else 'http'}://{request.headers.get('host', '')}"

    async def _enter(self, request: Request) -> Response:
        """Show the page that asks for a token or password, or take one."""
        access = self._laboratory.access
        name, secret = "", request.query_params.get("token", "")
        if request.method == "POST":
            if not self._is_own_origin(request):
                return PlainTextResponse("this form is of another site\n", 403)
            form = await _form(request)
            name, secret = form.get("name", [""])[0].strip(), form.get("secret", [""])[0]
        elif secret and request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # Another site would choose whose session this browser has.
            return _entrance("That address was opened by another site; paste the token here.", 403)
        if not secret:
            return _entrance("")
        client, now = _client(request), time.monotonic()
        if name:
            person, may_try = None, self._passwords.take(client, now)
        else:
            person = access.with_token(secret)
            may_try = person is not None or self._wrong_tokens.take(client, now)
        if not may_try:
            LOG.warning("too many wrong passwords or tokens of %s", client)
            return _entrance("Too many tries; wait a minute.", 429)
        if name:
            try:
                async with self._laboratory.hashing.of(network_of(client)):
                    person = await run_in_threadpool(access.with_password, name, secret)
            except BusyError as error:
                return self._busy(request, error)
        if person is None:
            LOG.warning("wrong password or token of %s", _client(request))
            return _entrance("That is not right.", 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, access.session(person, secret), SESSION_S, httponly=True, samesite="strict", secure=self._secure
        )
        return answer

    async def _leave(self, request: Request) -> Response:
        if not self._is_own_origin(request):
            return PlainTextResponse("this form is of another site\n", 403)
        await run_in_threadpool(self._laboratory.access.end, request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/enter", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=self._secure)
        return answer

    async def _events(self, request: Request) -> Response:
        """Stream the state of the queue, and the points of the graph of the entry that runs."""
        if self._person(request) is None:
            return self._strangers(request)
        network = network_of(_client(request))
        if self._streams.total() >= MOST_STREAMS or self._streams[network] >= STREAMS_BY_ADDRESS:
            return PlainTextResponse("too many pages follow the queue\n", 503)
        return StreamingResponse(self._stream(network), media_type="text/event-stream")

    async def _stream(self, network: str) -> AsyncIterator[str]:
        self._streams[network] += 1
        try:
            until = time.monotonic() + STREAM_S
            before = ""
            while time.monotonic() < until:
                state = await self._shared_state()
                # A comment shows whether somebody is still there.
                yield f"data: {state}\n\n" if state != before else ": nothing new\n\n"
                before = state
                await asyncio.sleep(EVENT_EVERY_S)
        finally:
            self._streams[network] -= 1
            # Without those that have none.
            self._streams = +self._streams

    async def _shared_state(self) -> str:
        """Return the state as JSON; all streams share what was found out within the last `EVENT_EVERY_S`."""
        now = time.monotonic()
        if self._found is None or now - self._found[0] >= EVENT_EVERY_S:
            self._found = now, asyncio.ensure_future(run_in_threadpool(lambda: json.dumps(self._state())))
        # A stream that ends takes nothing from the others.
        return await asyncio.shield(self._found[1])

    def _state(self) -> dict[str, object]:
        found = queue.state_of(self._laboratory)
        running = self._laboratory.queue.running()
        for entry, state in zip(running, found["running"], strict=False):
            if state["curve"]:
                state["curve"]["name"] = self._names.name(entry, state["curve"]["run"])
        return {**found, "points": self._graph.points(running[0].results) if running else []}

    async def _static(self, request: Request) -> Response:
        found = FILES.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("no such file\n", 404)
        return FileResponse(found[0], media_type=found[1], headers={"cache-control": "max-age=60"})

    async def _missing(self, request: Request, _error: Exception) -> Response:
        person = self._person(request)
        return (
            self._strangers(request)
            if person is None
            else self._refused(request, person, 404, "Nothing is at this address.")
        )

    async def _broken(self, request: Request, error: Exception) -> Response:
        LOG.error("%s %r: %r", request.method, request.url.path, error)
        return PlainTextResponse("this page is broken; the log of the server says more\n", 500)


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


def _entrance(why: str, status: int = 200) -> Response:
    return Response(render("enter.html", why=why), status, media_type="text/html")


def _client(request: Request) -> str:
    return request.client.host if request.client else "?"
