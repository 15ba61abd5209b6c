"""The decision log: its schema, its writer, its reader, and other people's formats.

Nothing here knows a policy: a log is rows of what was decided, how probable it was and what it earned.
"""

from linmed.log.decisions import BATCH, DecisionLog
from linmed.log.parquet import AT_ONCE, ParquetSource, write_parquet
from linmed.log.schema import ENTRY_ERROR, SCHEMA, SUM_ERROR, ragged
from linmed.log.source import Malformed, Source, TableSource
from linmed.log.writer import LogWriter, Recorder

__all__ = [
    "AT_ONCE",
    "BATCH",
    "ENTRY_ERROR",
    "SCHEMA",
    "SUM_ERROR",
    "DecisionLog",
    "LogWriter",
    "Malformed",
    "ParquetSource",
    "Recorder",
    "Source",
    "TableSource",
    "ragged",
    "write_parquet",
]
