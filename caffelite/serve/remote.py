"""Pictures of other servers, by their addresses: only from public machines, bounded in bytes and seconds."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

from ..errors import CaffeliteError, printable
from .config import ip_address
from .uploads import MOST_IMAGE, suffix

MOST_ADDRESS = 2048  # characters
CHUNK = 1 << 16
REDIRECTS = (301, 302, 303, 307, 308)
PORTS = {"http": 80, "https": 443}
CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host. Errors: OSError, UnicodeError."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in addresses))


def is_public(address: str) -> bool:
    """Whether an address is that of a machine in the public network, and no tunnel into another one."""
    ip = ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address) and (ip.ipv4_mapped or ip.sixtofour or ip.teredo or ip.is_site_local):
        return False
    return ip is not None and ip.is_global and not (ip.is_multicast or ip.is_reserved)


def permits(address: str, port: int) -> bool:
    return port in PORTS.values() and is_public(address)


@dataclass(frozen=True)
class Fetcher:
    """Reads pictures. size: bytes of one. seconds: for all of it, redirections too. redirects: how many are followed.
    resolve: the addresses of a host; permits: whether a connection to an address and a port is allowed, asked before
    each one, so that neither a name nor a redirection leads to this machine or its network."""

    size: int = MOST_IMAGE
    seconds: float = 20.0
    redirects: int = 3
    resolve: Callable[[str, int], list[str]] = resolve
    permits: Callable[[str, int], bool] = permits

    def read(self, url: str) -> bytes:
        """The picture at an address. Errors: CaffeliteError."""
        deadline = _Deadline(self.seconds)
        with closing(deadline):
            try:
                return self._follow(url, deadline)
            except (CaffeliteError, OSError, http.client.HTTPException, ValueError) as mistake:
                if deadline.expired:
                    raise CaffeliteError(f"the server took longer than {self.seconds:g} seconds") from None
                if isinstance(mistake, CaffeliteError):
                    raise
                what = printable(getattr(mistake, "strerror", None) or str(mistake) or type(mistake).__name__)
                raise CaffeliteError("the picture cannot be read", found=what[:200]) from None

    def _follow(self, url: str, deadline: _Deadline) -> bytes:
        for _ in range(self.redirects + 1):
            target = _split(url)
            with closing(self._connect(target, deadline)) as connection:
                path = (target.path or "/") + (f"?{target.query}" if target.query else "")
                connection.request("GET", path, headers={"Accept": "image/*", "Accept-Encoding": "identity"})
                response = connection.getresponse()
                if response.status not in REDIRECTS:
                    content = self._content(response)
                    if deadline.expired:
                        raise TimeoutError
                    return content
                url = urljoin(url, response.getheader("Location", ""))
            if target.scheme == "https" and _split(url).scheme != "https":
                raise CaffeliteError("the address leads from https to http")
        raise CaffeliteError("the address is redirected too often", expected=f"at most {self.redirects} times")

    def _connect(self, target: SplitResult, deadline: _Deadline) -> http.client.HTTPConnection:
        """A connection to an address that was permitted: the name is resolved once."""
        host = str(target.hostname)
        port = target.port or PORTS[target.scheme]
        try:
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError):
            raise CaffeliteError("there is no such server", found=printable(host)[:80]) from None
        if not addresses or not all(self.permits(address, port) for address in addresses):
            expected = "a public machine, at port 80 or 443"
            raise CaffeliteError("this server may not be asked", expected=expected, found=printable(host)[:80])
        link = deadline.watch(socket.create_connection((addresses[0], port), timeout=self.seconds))
        if target.scheme == "https":
            link = deadline.watch(ssl.create_default_context().wrap_socket(link, server_hostname=host))
        connection: http.client.HTTPConnection = CONNECTIONS[target.scheme](host, port)
        connection.sock = link
        return connection

    def _content(self, response: http.client.HTTPResponse) -> bytes:
        if response.status != http.client.OK:
            raise CaffeliteError("the server has no picture there", found=f"status {response.status}")
        if response.getheader("Content-Encoding", "identity") != "identity":
            raise CaffeliteError("the picture is compressed once more", expected="PNG, JPEG, BMP or WebP as it is")
        content = bytearray()
        while len(content) <= self.size and (chunk := response.read(CHUNK)):
            content += chunk
            if not suffix(bytes(content[:8])):
                raise CaffeliteError("this is no picture", expected="PNG, JPEG, BMP or WebP")
        if len(content) + (response.length or 0) > self.size:
            raise CaffeliteError("the picture is too large", expected=f"at most {self.size:,} bytes")
        if response.length or not content:
            raise CaffeliteError("the picture ends too early")
        return bytes(content)


class _Deadline:
    """Ends the watched connection when the time is over, however slowly its server sends."""

    def __init__(self, seconds: float):
        self.expired, self._lock = False, threading.Lock()
        self._link: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def watch(self, link: socket.socket) -> socket.socket:
        with self._lock:
            self._link = link
            if self.expired:
                _cut(link)
        return link

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            if self._link is not None:
                _cut(self._link)

    def close(self) -> None:
        self._timer.cancel()


def _cut(link: socket.socket) -> None:
    with suppress(OSError):  # closed already
        socket.socket.shutdown(link, socket.SHUT_RDWR)  # not TLS's own: that would forget the layer while it is read


def _split(url: str) -> SplitResult:
    """The parts of an address. Errors: CaffeliteError for another scheme, a password, characters to be encoded."""
    expected = "http:// or https:// and the name of a server"
    if len(url) > MOST_ADDRESS or not (url.isascii() and url.isprintable()) or " " in url:
        raise CaffeliteError("this is no address", expected=f"{expected}, at most {MOST_ADDRESS} encoded characters")
    try:
        target = urlsplit(url)
        valid = target.scheme in PORTS and bool(target.hostname) and target.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise CaffeliteError("this is no address of a picture", expected=expected, found=printable(url)[:80])
    if target.username is not None or target.password is not None:
        raise CaffeliteError("the address has a name or a password", remedy="leave them out")
    return target
