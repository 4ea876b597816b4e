"""Checks of every request before a page sees it, and headers of every answer."""

import asyncio
import hashlib
import hmac
import html
import re
import secrets
import socket
import time
from contextlib import nullcontext
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import roots
from .assets import plotly_style
from .config import ServeConfig, ip_address, is_loopback

SAFE = ("GET", "HEAD", "OPTIONS")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer a form of our own would have "Origin: null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}
SESSION = 7 * 24 * 3600  # seconds for which a cookie is valid
WRONG_TOKEN = 1.0  # seconds before the answer to a wrong token, one after the other for an address
MOST_WRONG = 30.0  # seconds of such answers that wait, after which no token of the address is looked at
BODY, RATE = 60.0, 1 << 15  # seconds for a body, and bytes a second that give it more
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_BEARER = {"WWW-Authenticate": "Bearer"}


class Refused(Exception):
    """A request that is refused: the status, and the text for the client."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None):
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers or {}


class Security:
    """The middleware: Host, Origin and Sec-Fetch-Site, token, size of the body, headers of the answer."""

    def __init__(self, app: ASGIApp, config: ServeConfig):
        self._app, self._config = app, config
        self._hosts, self._by_address = allowed_hosts(config), not is_loopback(config.host)
        style = f"style-src 'self' {plotly_style()}".rstrip()
        headers = {**HEADERS, "Content-Security-Policy": POLICY.replace("style-src 'self'", style)}
        self._headers = Headers(headers | {"Cache-Control": "no-store"}).raw
        self._confinement = config.bounds.confinement()
        self._cookie = f"caffelite_{config.port}"
        self._key = secrets.token_bytes(32)  # not made from the token: a cookie is no way to try one
        self._answered: dict[str, float] = {}  # by address: when the last answer to a wrong token goes out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                added = [header for header in self._headers if header[0] not in names]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_origin(scope["method"], headers)
            entrance = await self._check_token(scope, headers)
            limited = self._limited(headers, receive)
        except Refused as refused:
            await _refusal(headers, scope, refused)(scope, receive, send_with_headers)
            return
        if entrance:
            await entrance(scope, receive, send_with_headers)
            return
        with roots.confined(self._confinement) if self._confinement else nullcontext():
            await self._app(scope, limited, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        """A page of another site that its name server points at this machine has another Host (DNS rebinding)."""
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        # No name server can point an IP address elsewhere.
        by_address = match and self._by_address and ip_address(match[1])
        if not match or not (match[1].lower() in self._hosts or by_address):
            raise Refused(400, "this server does not answer to this Host; allow a name with -allow_host")

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Pages of other sites may link here; they may change nothing, and include nothing of it."""
        site, mode = headers.get("sec-fetch-site", ""), headers.get("sec-fetch-mode", "")
        own = site in ("", "same-origin", "none")
        if method in SAFE:
            if not own and mode != "navigate":
                raise Refused(403, "a page of another site may not read this")
            return
        origins = headers.getlist("origin")
        expected = f"{self._config.scheme}://{headers['host']}".lower()
        if not own or any(origin.lower() != expected for origin in origins):
            raise Refused(403, "a page of another site may not send this")

    async def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a first visit with the token in its address; None where the request may go on."""
        if not self._config.token:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"] if scope["method"] == "GET" else []
        kind, _, token = headers.get("authorization", "").partition(" ")
        bearer = [token.strip()] if kind.lower() == "bearer" else []
        address = str((scope.get("client") or ("",))[0])
        if tokens or bearer:
            self._check_pace(address)
        if tokens and _equal(tokens[0], self._config.token):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            return self._entrance(scope["path"] + (f"?{rest}" if rest else ""))
        if bearer and _equal(bearer[0], self._config.token):
            return None
        if any(self._is_session(value) for value in _cookies(headers, self._cookie)):
            return None
        if tokens or bearer:
            await asyncio.sleep(self._delay(address))
        raise Refused(401, "this server needs its token: open the address that it printed when it started", _BEARER)

    def _check_pace(self, address: str) -> None:
        waiting = self._answered.get(address, 0.0) - time.monotonic()
        if waiting > MOST_WRONG:
            raise Refused(429, "too many wrong tokens", {"Retry-After": str(int(waiting) + 1)})

    def _delay(self, address: str) -> float:
        """The seconds before the answer to a wrong token."""
        now = time.monotonic()
        self._answered = {one: at for one, at in self._answered.items() if at > now}
        self._answered[address] = max(self._answered.get(address, now), now) + WRONG_TOKEN
        return self._answered[address] - now

    def _session(self, end: str) -> str:
        """A cookie that is valid until ``end``, in seconds since 1970."""
        return f"{end}.{hmac.new(self._key, end.encode(), hashlib.sha256).hexdigest()}"

    def _is_session(self, value: str) -> bool:
        end = value.partition(".")[0]
        known = end.isascii() and end.isdecimal() and len(end) < 12 and _equal(value, self._session(end))
        return known and int(end) > time.time()

    def _entrance(self, where: str) -> Response:
        """Sets the cookie and goes on to the page without the token. Not by a redirect: after a link from another site
        a browser would not send a SameSite=Strict cookie with it."""
        where = "/" + where.lstrip("/\\")
        response = HTMLResponse(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={html.escape(where)}">'
            f'<title>caffelite</title><a href="{html.escape(where)}">caffelite</a>'
        )
        secure = bool(self._config.cert)
        value = self._session(str(int(time.time()) + SESSION))
        response.set_cookie(
            self._cookie, value, max_age=SESSION, httponly=True, samesite="strict", secure=secure, path="/"
        )
        return response

    def _limited(self, headers: Headers, receive: Receive) -> Receive:
        """Receives a body up to the limits of its kind, whatever its Content-Length says, and of time."""
        multipart = headers.get("content-type", "").lower().startswith("multipart/form-data")
        limit = self._config.limits.upload if multipart else self._config.limits.form
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise Refused(400, "Content-Length is no number")
        if len(length) > 18 or int(length) > limit:
            raise Refused(413, f"the request is too large; at most {limit} bytes")
        received, complete = 0, False
        deadline = asyncio.get_running_loop().time() + BODY + int(length) / RATE

        async def limited() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the request takes too long") from None
            complete = not message.get("more_body", False)
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > limit:
                    raise HTTPException(413, f"the request is too large; at most {limit} bytes")
            return message

        return limited


def allowed_hosts(config: ServeConfig) -> set[str]:
    """The names that a Host header may have, in lower case."""
    hosts = {"localhost", "127.0.0.1", "[::1]", *config.hosts}
    if not is_loopback(config.host):
        hosts |= {socket.gethostname(), socket.getfqdn()}
    host = config.host
    hosts.add(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    return {name.lower() for name in hosts}


def _cookies(headers: Headers, name: str) -> list[str]:
    values = []
    for text in headers.getlist("cookie"):
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(text)
        except CookieError:
            continue
        if name in cookies:
            values.append(cookies[name].value)
    return values


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())


def _refusal(headers: Headers, scope: Scope, refused: Refused) -> Response:
    extra = refused.headers
    if str(scope["path"]).endswith(".json") or "text/html" not in headers.get("accept", ""):
        content = {"error": refused.text, "status": refused.status}
        return JSONResponse(content, refused.status, headers=extra)
    text = html.escape(refused.text)
    body = f'<!doctype html><meta charset="utf-8"><title>caffelite</title><h1>{refused.status}</h1><p>{text}</p>'
    return HTMLResponse(body, refused.status, headers=extra)
