"""When each bandit's log was last written to, so that time in it never goes back.

A clock may step back, and another server's may be ahead. What is written is therefore no earlier than what is
known to have been written last, here or, within the staleness, elsewhere. What two servers write at the same
moment may still cross; whoever reads the log takes a running maximum.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from linmed.serve import store
from linmed.serve.database import decisions, rewards


class Times:
    """The last moment of every bandit, in microseconds since 1970."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self._seen = {decisions.c.number: 0, rewards.c.seq: 0}

    def begin(self, connection: Connection) -> None:
        """Where the log ends."""
        self.last = store.newest_times(connection)
        for number in self._seen:
            self._seen[number] = connection.execute(sa.select(sa.func.max(number))).scalar_one() or 0

    def follow(self, connection: Connection) -> None:
        """Take notice of what any server has written since."""
        for number, seen in self._seen.items():
            table = number.table
            query = sa.select(table.c.bandit, sa.func.max(table.c.time), sa.func.max(number))
            rows = connection.execute(query.where(number > seen).group_by(table.c.bandit)).all()
            for bandit, moment, newest in rows:
                self.last[bandit] = max(moment, self.last.get(bandit, moment))
                self._seen[number] = max(newest, self._seen[number])
