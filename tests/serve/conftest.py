"""Clients of the application over a folder, and a browser."""

import os
from contextlib import ExitStack

import pytest
from browsing import ARGUMENTS, CHROMIUM
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


@pytest.fixture(scope="package")
def browser():
    """Chromium; where CAFFELITE_BROWSER is set, tests fail without it."""
    lacking = pytest.fail if os.environ.get("CAFFELITE_BROWSER") else pytest.skip
    if not os.path.exists(CHROMIUM):
        lacking(f"{CHROMIUM} does not exist")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed")
    with sync_playwright() as playwright:
        actual = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield actual
        actual.close()
