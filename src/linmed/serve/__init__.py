"""The decision service: HTTP over a durable log. Needs the extra `linmed[serve]`.

A request passes the `gate` (who asks, how often), is read by the `app` into one of the `bodies`, granted by a
function of `routes`, which asks the `server`; that draws from the `bandit` in `memory` and hands what is to
be durable to the `engine`, the one thread that writes, by the queries of `store` on the tables of `database`.
One decision or reward takes the short way of `quick`; reports are made in processes (`reporting`).
docs/service.md has a table of all the rooms.
"""
