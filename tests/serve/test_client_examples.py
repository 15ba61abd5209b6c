"""The examples in the docstrings of the clients run, against a service of their own."""

import doctest

import httpx

from linmed.serve import client as clients
from linmed.serve.client import Client


def test_examples_of_the_clients_run(app: httpx.Client) -> None:
    url = str(app.base_url)
    with Client(url) as client:
        for test in doctest.DocTestFinder().find(clients, extraglobs={"url": url, "client": client}):
            assert doctest.DocTestRunner().run(test).failed == 0, test.name
