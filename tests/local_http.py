"""A server of HTTP that answers from a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def served(server) -> Iterator:
    """A server of http.server, which answers until the end of the block."""
    # Its end waits for this interval, half a second by default.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
