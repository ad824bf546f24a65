"""Who is served: the names that the server answers to, its key, and where a request comes from."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Pages of ours: their scripts are files of the server, and nothing comes from elsewhere.
OWN = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# Reports and comparisons have all in one file. In a sandbox they are of no origin: whatever a rank
# might have got into one reaches neither the key nor what can be done here.
REPORT = (
    "sandbox allow-scripts allow-popups allow-top-navigation-by-user-activation; "
    "default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'self'"
)
# Files of a run.
FOREIGN = "sandbox; default-src 'none'; frame-ancestors 'none'"
SAFE = ("GET", "HEAD")
# How long a browser that had the key is let in without it, and a report is in an open page, in
# seconds.
SESSION, PASS = 7 * 86400, 86400


@dataclass(frozen=True)
class Guard:
    """What a request must have.

    Attributes:
        key: everybody who has it may do everything; None where a proxy in front asks who they are.
        names: hosts that the server is called by, which keeps out pages of others whose names lead
            here (DNS rebinding); none where it is reached by a socket alone.
        read_only: nothing can be done, only looked at.
        cookie: the name of the cookie of a session. Cookies know no ports: two servers have two,
            and each gets that of the other as well. Hence it does not hold the key.
        sessions: of browsers that had the key, and the time at which each ends.
    """

    key: str | None
    names: Sequence[str]
    read_only: bool = False
    cookie: str = "trainyard"
    sessions: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def csrf(self) -> str:
        """What a page of ours sends along, and no page of others can know."""
        return hmac.new((self.key or _OF_PROCESS).encode(), b"csrf", hashlib.sha256).hexdigest()

    def pass_of(self, path: str) -> str:
        """Stands for a session in the address of one file: a report in a sandbox has no cookies.

        Args:
            path: from the server's root on.
        """
        return self._pass(path, f"{time.time() + PASS:.0f}")

    def _pass(self, path: str, until: str) -> str:
        signed = f"{until} {path}".encode()
        return (
            f"{until}-{hmac.new((self.key or _OF_PROCESS).encode(), signed, 'sha256').hexdigest()}"
        )

    def _passes(self, path: str, said: str) -> bool:
        until = said.partition("-")[0]
        return _is(said, self._pass(path, until)) and float(until) > time.time()

    def refusal(self, request: Request) -> Response | None:
        """The answer to what is refused; None for what is not."""
        host = request.headers.get("host", "")
        if self.names and _name_of(host) not in self.names:
            return PlainTextResponse(f"this server is not called {host!r}\n", 421)
        if request.method in SAFE and self._passes(
            request.url.path, request.query_params.get("pass", "")
        ):
            return None
        if self.key is not None and not self._is_known(request, self.key):
            if _is(request.query_params.get("key"), self.key):
                return self._let_in(request)
            text = "Open the address that `make web` printed: it has the key.\n"
            return PlainTextResponse(text, 403)
        if request.method in SAFE:
            return None
        if self.read_only:
            return PlainTextResponse("this server is read-only (READ_ONLY=1)\n", 403)
        origin = request.headers.get("origin")
        if not host or origin not in (f"http://{host}", f"https://{host}"):
            return PlainTextResponse("this request came from another site\n", 403)
        if not _is(request.headers.get("x-csrf-token"), self.csrf):
            return PlainTextResponse("this page is out of date: reload it\n", 403)
        return None

    def _let_in(self, request: Request) -> Response:
        """Begin a session, and take the key out of the address."""
        for over in [session for session, end in self.sessions.items() if end < time.time()]:
            del self.sessions[over]
        session = secrets.token_hex()
        self.sessions[session] = time.time() + SESSION
        answer = RedirectResponse(request.url.path, 303)
        answer.set_cookie(self.cookie, session, max_age=SESSION, httponly=True, samesite="lax")
        return answer

    def _is_known(self, request: Request, key: str) -> bool:
        # A monitoring has no cookies.
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        session = request.cookies.get(self.cookie, "")
        return self.sessions.get(session, 0) > time.time() or _is(bearer, key)


class Guarded:
    """Refuses what the guard refuses, and says with every answer what browsers may make of it."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("content-security-policy", OWN)
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "no-referrer"
                headers["cross-origin-resource-policy"] = "same-origin"
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._guard.refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_more)


def who(headers: Headers) -> str:
    """Whom the proxy in front has let in; "" where it does not say."""
    name = headers.get("x-forwarded-user") or headers.get("remote-user") or ""
    return name[:60] if name.isprintable() else ""


def _name_of(host: str) -> str:
    """Without the port; "" of what is no host."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


_OF_PROCESS = secrets.token_hex()


def _is(said: str | None, secret: str) -> bool:
    return said is not None and hmac.compare_digest(said.encode(), secret.encode())
