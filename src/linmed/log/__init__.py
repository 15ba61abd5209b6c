"""The decision log: its schema, its writer, its reader, and other people's formats.

Nothing here knows a policy: a log is rows of what was decided, how probable it was and what it earned.
"""

from linmed.extras import require

require("linmed.log", "log")

from linmed.log.list_log import LIST_SCHEMA, ListLog
from linmed.log.mapping import parse_columns
from linmed.log.parquet import AT_ONCE, ParquetSource, write_parquet
from linmed.log.reader import DecisionLog
from linmed.log.schema import ENTRY_ERROR, SCHEMA, SUM_ERROR, ragged
from linmed.log.source import BATCH, Malformed, Source, TableSource
from linmed.log.views import Duplicates, Repeated
from linmed.log.writer import LogWriter, Recorder

__all__ = [
    "AT_ONCE",
    "BATCH",
    "ENTRY_ERROR",
    "LIST_SCHEMA",
    "SCHEMA",
    "SUM_ERROR",
    "DecisionLog",
    "Duplicates",
    "ListLog",
    "LogWriter",
    "Malformed",
    "ParquetSource",
    "Recorder",
    "Repeated",
    "Source",
    "TableSource",
    "parse_columns",
    "ragged",
    "write_parquet",
]
