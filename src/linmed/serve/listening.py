"""The socket that a server listens on, and a server on it."""

import gc
import os
import socket
from typing import Any

from linmed.serve.settings import Settings

YOUNG = 20_000
"""Objects made since the last search for garbage that lead to the next: those of many requests at once."""


def bound(settings: Settings) -> socket.socket:
    """A socket at the settings' address, which workers share; or say why it cannot be had."""
    shared = settings.workers > 1
    if shared and not hasattr(socket, "SO_REUSEPORT"):
        raise ValueError("workers: this system cannot share a port between processes; start one server")
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A restart need not wait for the old connections to be forgotten. On Windows it need not anyway, and
        # the option would let two servers have the same port.
        if os.name != "nt":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ValueError(f"cannot listen on {settings.host}:{settings.port} ({error.strerror})") from None
    return listener


def address(settings: Settings) -> str:
    """For people and browsers."""
    return f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{settings.port}/"


def serve(settings: Settings, database: Any, listener: socket.socket) -> None:
    """Until a signal."""
    from linmed.serve.app import create_app
    from linmed.serve.protocol import WebServer

    allow_files(settings.max_connections)
    server = WebServer(create_app(settings, database), settings)
    # What is here now stays: to look through it for garbage again and again would make requests wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    server.run(sockets=[listener])


def allow_files(connections: int) -> None:
    """Each connection is an open file, of which a process often may have only 1024 unless it asks."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256  # the database's, and whatever else
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard >= 0 else wanted, hard))
