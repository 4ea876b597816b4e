"""The configuration of the server."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from ..errors import CaffeliteError, printable
from ..runs.limits import Bounds, Outside
from ..runs.queue.job import ALL
from ..runs.queue.local import Slots

TOKEN_LENGTH = 16  # characters, at least


@dataclass(frozen=True)
class Limits:
    """The largest requests that are accepted.

    form: bytes of a form or of JSON. upload: bytes of a request with files. files, fields: their number in a form.
    pixels: of an uploaded image.
    """

    form: int = 1 << 20
    upload: int = 1 << 30
    files: int = 10_000
    fields: int = 1000
    pixels: int = 100_000_000


@dataclass(frozen=True)
class ServeConfig:
    """The options of `caffelite serve`.

    roots: the folders below which everything is that a page reads or writes. host, port: where the server listens; 0: a
    free port. token: what a client must present; empty: none is needed. hosts: names of this machine that requests may
    have in their Host header, besides ``host``. cert, key: PEM files for TLS. allow_python: whether nets with Python
    layers may be used. allow_download: whether jobs may download MNIST and CIFAR-10, and a page
    pictures. gpus: those on which jobs run, as
    `queue run -gpu` names them. cpu_slots: jobs without a GPU that run at the same time. depth: how many levels below a
    root run folders are searched; None: all.

    Errors: CaffeliteError for a root that is no folder, a short token, an address other than loopback without a token,
    a key without a certificate, GPUs that are no numbers.
    """

    roots: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    token: str = ""
    hosts: tuple[str, ...] = ()
    cert: Path | None = None
    key: Path | None = None
    allow_python: bool = False
    allow_download: bool = False
    gpus: str = ALL
    cpu_slots: int = 1
    depth: int | None = None
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        for root in self.roots:
            if not root.is_dir():
                raise CaffeliteError(f"-root {root} is no folder", remedy="create it first")
        if not self.roots:
            raise CaffeliteError("the server needs a folder", remedy="name one with -root")
        resolved = tuple(dict.fromkeys(root.resolve() for root in self.roots))
        object.__setattr__(self, "roots", resolved)
        if self.token and (len(self.token) < TOKEN_LENGTH or not self.token.isascii() or not self.token.isprintable()):
            raise CaffeliteError("-token is too short or not ASCII", expected=f"{TOKEN_LENGTH} characters or more")
        if not self.token and not is_loopback(self.host):
            remedy = "add -token auto, or leave -host out"
            what = f"-host {self.host} can be reached by other machines"
            raise CaffeliteError(what, expected="a token", remedy=remedy)
        if bool(self.cert) != bool(self.key):
            raise CaffeliteError("TLS needs both -cert and -key", remedy="name the PEM files of both")
        if self.gpus != ALL:
            Slots.of(self.gpus, self.cpu_slots)

    @property
    def bounds(self) -> Bounds:
        """What pages, and the jobs that they add, may name."""
        return Bounds(self.roots, self.allow_python)

    @property
    def scheme(self) -> str:
        return "https" if self.cert else "http"

    def resolve(self, text: str, *, base: Path | None = None) -> Path:
        """The path that a text of a request means, with symbolic links resolved.

        A relative path starts at ``base``, else at the root; with several roots its first part is the name of one. It
        need not exist. Errors: Outside where the path, or a link on it, leads out of all roots; a NUL; too long a text.
        """
        names = self.root_names()
        if base is None and not text.startswith("/") and len(names) > 1:
            first, _, text = text.partition("/")
            if first not in names:
                expected = f"a path that begins with {' or '.join(f'{name}/' for name in names)}"
                raise Outside("no root has this name", expected=expected, found=f'"{printable(first, keep="")[:200]}"')
            base = self.roots[names.index(first)]
        return self.bounds.resolve(text, base or self.roots[0])

    def address(self, path: Path) -> str:
        """The text by which pages name a path below a root: relative to it, with the root's name where there are
        several. ``resolve`` accepts it. Errors: Outside."""
        path = path.resolve()
        for root, name in zip(self.roots, self.root_names(), strict=True):
            if path.is_relative_to(root):
                return (Path(name) / path.relative_to(root)).as_posix()
        raise Outside("this path is not below a root of the server", found=f'"{printable(str(path), keep="")}"')

    def root_of(self, path: Path) -> Path:
        """The root that holds a path below the roots."""
        return next(root for root in self.roots if path.is_relative_to(root))

    def named_root(self, name: str) -> Path:
        """The root that a form names. Errors: there is none."""
        names = self.root_names()
        if name not in names:
            raise CaffeliteError("no root has this name", expected=f"one of {', '.join(names)}")
        return self.roots[names.index(name)]

    def root_names(self) -> list[str]:
        """A name for each root, which is the first part of addresses below it; empty where there is one root."""
        if len(self.roots) == 1:
            return [""]
        names: list[str] = []
        for root in self.roots:
            name = base = root.name or "root"
            number = 1
            while name in names:
                number += 1
                name = f"{base}_{number}"
            names.append(name)
        return names


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    address = ip_address(host)
    return address.is_loopback if address else host == "localhost"


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that a host is; None where it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
