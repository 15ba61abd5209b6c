"""The examples in the docstrings of the clients run, against a service of their own."""

import doctest

import httpx

from linmed.serve import calls
from linmed.serve import client as clients
from linmed.serve.client import Client


def test_examples_of_the_clients_run(app: httpx.Client) -> None:
    url = str(app.base_url)
    with Client(url) as client:
        for module in (calls, clients):
            results = doctest.testmod(module, extraglobs={"url": url, "client": client})
            assert results.attempted > 0
            assert results.failed == 0
