"""`linmed serve`: the command line of the service."""

import argparse
import dataclasses
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from linmed.serve.settings import Settings

_DEFAULT = Settings()
_STANDARD = frozenset(vars(logging.makeLogRecord({})))
_OPTIONS = {
    "database": "SQLAlchemy URL: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME",
    "host": "address to listen on; any but a loopback address needs tokens",
    "port": "0 takes a free one and prints it",
    "staleness": "seconds within which other servers' rewards are folded",
    "max_arms": "arms in one decision",
    "max_batch": "decisions or rewards in one request",
    "max_body": "bytes of one request",
    "max_waiting": "decisions and rewards that may wait for their commit",
    "rate": "requests a second of one caller, 0 for no limit",
    "snapshot_every": "rewards between two snapshots of a state",
}


def add_parser(subparsers: Any) -> None:
    """Add `serve` to the command line."""
    parser = subparsers.add_parser(
        "serve", help="serve decisions over HTTP", description="Serve decisions over HTTP, on a durable log."
    )
    for name, text in _OPTIONS.items():
        default = getattr(_DEFAULT, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(default),
            default=default,
            help=f"{text} (default {default})",
        )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    parser.add_argument("--check", action="store_true", help="check settings and database, then stop")
    parser.add_argument(
        "--create-token", metavar="SCOPES", help="print a new token: some of read,decide,admin"
    )
    parser.add_argument("--bandit", help="with --create-token: only for this bandit")
    parser.add_argument("--label", default="", help="with --create-token: what it is for")
    parser.add_argument("--list-tokens", action="store_true", help="list the tokens without their secrets")
    parser.add_argument("--revoke-token", metavar="ID", help="forget a token")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what the command line says."""
    try:
        from linmed.serve.database import Database, DatabaseError
    except ModuleNotFoundError as error:
        print(f"linmed serve needs {error.name}: pip install 'linmed[serve]'", file=sys.stderr)
        return 2
    try:
        settings = Settings(**{f.name: getattr(args, f.name) for f in dataclasses.fields(Settings)})
        database = Database(settings.database)
        database.open()
    except (ValueError, DatabaseError) as error:
        print(f"linmed serve: {error}", file=sys.stderr)
        return 2
    try:
        return _with_database(args, settings, database)
    except (ValueError, DatabaseError) as error:
        print(f"linmed serve: {error}", file=sys.stderr)
        return 2
    finally:
        database.close()


def _with_database(args: argparse.Namespace, settings: Settings, database: Any) -> int:
    from linmed.serve import tokens

    if args.create_token:
        scopes = [scope for scope in args.create_token.replace(",", " ").split() if scope]
        print(tokens.create(database, scopes, args.bandit, args.label))
        return 0
    if args.list_tokens:
        for row in tokens.listing(database):
            print(f"{row['id']}  {row['scopes']}  {row['bandit'] or 'all bandits'}  {row['label']}".rstrip())
        return 0
    if args.revoke_token:
        known = tokens.revoke(database, args.revoke_token)
        print(f"token {args.revoke_token} {'revoked' if known else 'is unknown'}")
        return 0 if known else 1
    if not settings.loopback and not tokens.listing(database):
        raise ValueError(
            f"host {settings.host} can be reached from elsewhere and there are no tokens: make one with "
            "--create-token admin, or listen on 127.0.0.1"
        )
    if args.check:
        print(f"ok: database {database.shown}, host {settings.host}, {len(tokens.listing(database))} tokens")
        return 0
    return _serve(settings, database, args.log_level)


def _serve(settings: Settings, database: Any, log_level: str) -> int:
    import socket

    import uvicorn

    from linmed.serve.app import create_app

    log_to_stderr(log_level)
    config = uvicorn.Config(
        create_app(settings, database),
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=30,
    )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        raise ValueError(f"cannot listen on {settings.host}:{settings.port} ({error.strerror})") from None
    shown = f"[{settings.host}]" if family == socket.AF_INET6 else settings.host
    print(f"linmed serves on http://{shown}:{listener.getsockname()[1]}/", flush=True)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, and whatever was passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to_stderr(level: str) -> None:
    """Send the service's and the web server's logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("linmed", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
