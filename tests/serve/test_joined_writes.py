"""What a server writes in one turn of its loop goes out together."""

import asyncio

from caffelite.serve import server


class Transport:
    def __init__(self):
        self.written, self.closed = [], False

    def write(self, data):
        assert not self.closed
        self.written.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def run(act) -> Transport:
    """The transport after ``act`` and a turn of the loop."""

    async def main():
        transport = Transport()
        act(server._Joined(transport, asyncio.get_running_loop()), transport)
        await asyncio.sleep(0)
        return transport

    return asyncio.run(main())


def test_headers_and_body_are_one_write():
    def act(joined, transport):
        joined.write(b"head")
        joined.write(b"body")
        assert transport.written == [] and not joined.is_closing()

    assert run(act).written == [b"headbody"]


def test_a_large_body_is_not_collected():
    large = bytes(server.LEAST)

    def act(joined, transport):
        joined.write(b"head")
        joined.write(large)
        assert transport.written == [b"head" + large]
        joined.write(b"tail")

    assert run(act).written == [b"head" + large, b"tail"]


def test_what_was_written_goes_out_before_the_end():
    def act(joined, transport):
        joined.write(b"last words")
        joined.close()
        assert transport.closed

    transport = run(act)
    assert transport.written == [b"last words"] and transport.closed
