"""`linmed serve`: the command line of the service."""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from linmed.serve.settings import Settings


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `serve`."""
    parser.description = "Serve decisions over HTTP, on a durable log."
    for field in dataclasses.fields(Settings):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"{field.metadata['help']} (default {field.default})",
        )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    parser.add_argument(
        "--demo", action="store_true", help="serve simulated visitors, on a database that is gone afterwards"
    )
    parser.add_argument("--check", action="store_true", help="check settings and database, then stop")
    parser.add_argument(
        "--create-token", metavar="SCOPES", help="print a new token: some of read,decide,admin"
    )
    parser.add_argument("--bandit", help="with --create-token: only for this bandit; with --import: its name")
    parser.add_argument("--label", default="", help="with --create-token: what it is for")
    parser.add_argument("--list-tokens", action="store_true", help="list the tokens without their secrets")
    parser.add_argument("--revoke-token", metavar="ID", help="let nobody in with this token any more")
    parser.add_argument(
        "--import",
        dest="file",
        metavar="FILE",
        help="make the bandit --bandit of an agent's file (Agent.save) or a decision log, then stop; servers "
        "may run meanwhile",
    )
    parser.add_argument(
        "--policy", type=_policy, metavar="JSON",
        help="with --import of a log: what serves from now on (default: LinMED with sigma unknown, the ridge "
        "learned and an intercept, which needs no unit)",
    )  # fmt: skip
    parser.add_argument(
        "--backup", metavar="FILE", type=Path, help="copy a SQLite database, also while servers write to it"
    )
    parser.set_defaults(run=run)


def _refuse_empty(args: argparse.Namespace) -> None:
    """An option with an empty value is a variable of a script that was never set, not a wish to serve."""
    for option in ("create_token", "bandit", "revoke_token", "file"):
        if getattr(args, option) == "":
            name = {"file": "import"}.get(option, option).replace("_", "-")
            raise ValueError(f"--{name} is empty")


def _policy(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        form = '{"policy": "LinMED", "sigma": 0.5}'
        raise argparse.ArgumentTypeError(f"must be a JSON object such as '{form}', got {text!r}")
    return found


def run(args: argparse.Namespace) -> int:
    """Do what the command line says."""
    try:
        from linmed.serve import database, demo  # noqa: F401  (is all of the extra there?)
    except ModuleNotFoundError as error:
        print(f"linmed serve needs {error.name}: pip install 'linmed[serve]'", file=sys.stderr)
        return 2
    hide_password(args.database)
    if not args.demo:
        return _run(args)
    with demo.stage(args):
        return _run(args)
    return 0


def _run(args: argparse.Namespace) -> int:
    from linmed.serve.database import Database, DatabaseError

    try:
        _refuse_empty(args)
        settings = Settings(**{f.name: getattr(args, f.name) for f in dataclasses.fields(Settings)})
        database = Database(settings.database)
        if args.backup is not None:  # of the database as it is, before anything brings it up to date
            from linmed.serve.database import backup

            print(backup(database, args.backup))
            return 0
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
    from linmed.serve import middleware as tokens

    if args.create_token is not None:
        scopes = [scope for scope in args.create_token.replace(",", " ").split() if scope]
        print(tokens.create(database, scopes, args.bandit, args.label))
        return 0
    if args.list_tokens:
        for row in tokens.listing(database):
            where, ended = row["bandit"] or "all bandits", " (revoked)" if row["revoked"] else ""
            print(f"{row['id']}  {row['scopes']}  {where}  {row['label']}{ended}".rstrip())
        return 0
    if args.revoke_token is not None:
        known = tokens.revoke(database, args.revoke_token)
        print(f"token {args.revoke_token} {'revoked' if known else 'is unknown'}")
        return 0 if known else 1
    if args.file is not None:
        print(_import(args, database))
        return 0
    if not settings.loopback and not tokens.listing(database):
        raise ValueError(
            f"host {settings.host} can be reached from elsewhere and there are no tokens: make one with "
            "--create-token admin, or listen on 127.0.0.1"
        )
    if args.check:
        valid = sum(row["revoked"] is None for row in tokens.listing(database))
        print(f"ok: database {database.shown}, host {settings.host}, {valid} tokens")
        return 0
    if args.demo and tokens.listing(database):
        raise ValueError("--demo needs a database without tokens: its visitors have none")
    return _serve(settings, database, args.log_level, args.demo)


def _import(args: argparse.Namespace, database: Any) -> str:
    from linmed.report.progress import Bar
    from linmed.serve.importing import import_file

    if args.bandit is None:
        raise ValueError("--import needs --bandit NAME, the name under which it is to be served")
    with Bar(True, "decisions", "importing") as bar:
        return import_file(database, Path(args.file), args.bandit, args.policy, bar.reach)


def _serve(settings: Settings, database: Any, log_level: str, demo: bool) -> int:
    from linmed.serve.demo import visitors
    from linmed.serve.processes import address, bound, log_to_stderr, serve, supervise

    log_to_stderr(log_level)
    if settings.workers > 1:
        bound(dataclasses.replace(settings, workers=1)).close()  # is the port free, or another's workers'?
        database.close()
        return supervise(settings, log_level)
    with bound(settings) as listener:
        settings = dataclasses.replace(settings, port=listener.getsockname()[1])
        listener.listen()  # who connects from here on is answered, however long the rest takes to start
        print(f"linmed serves on {address(settings)}", flush=True)
        with visitors(address(settings)) if demo else contextlib.nullcontext():
            serve(settings, database, listener)
    return 0


def hide_password(url: str) -> None:
    """Start anew without the password in the command line, where every user of the machine can read it.

    Not on Windows, where other users cannot, and where what is started anew leaves its console.
    """
    import sqlalchemy as sa

    if os.name == "nt":
        return
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        return  # the database will say so
    if parsed.password and any(url in word for word in sys.orig_argv):
        bare = parsed._replace(password=None).render_as_string(hide_password=False)
        words = [word.replace(url, bare) for word in sys.orig_argv]
        os.execve(sys.executable, words, {**os.environ, "PGPASSWORD": str(parsed.password)})
