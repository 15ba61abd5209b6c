"""The decision service: HTTP over a durable log. Needs the extra `linmed[serve]`.

A request passes the `middleware` (who asks, how often), is read by `parsing` into one of the `schemas` and
granted by a function of `api`, which asks the `server`. That draws from the `bandit` in `memory` and hands
what is to be durable to the `engine`, the one thread that writes, by the queries of `store` on the tables of
`database`. One decision or reward takes the `fast_path`; reports are made in `processes`.
docs/service.md has a table of all files.
"""
