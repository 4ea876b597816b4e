"""A client of the application over a folder of runs."""

from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig


@pytest.fixture
def make_client(tmp_path):
    """Makes a client of a server over the test's folder; options are those of ServeConfig."""
    with ExitStack() as stack:

        def make(**options):
            roots = options.pop("roots", (tmp_path,))
            config = ServeConfig(roots=roots, **options)
            return stack.enter_context(TestClient(create_app(config), base_url=f"http://127.0.0.1:{config.port}"))

        yield make


@pytest.fixture
def client(make_client):
    return make_client()
