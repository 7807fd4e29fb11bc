"""The log: one line for each review, as JSON or as text, on standard error.

Facts of a line are given as `extra={"facts": {...}}`. The usual JSON formatter takes a third of the time of a review.
"""

import logging
from datetime import UTC, datetime

import orjson
from aiohttp.http_exceptions import HttpProcessingError


def configure_logs(log_format: str, level: str) -> None:
    """Sets up the log of the process. What kopf does with each request is told only at "debug"."""
    # What no line of ours tells need not be found out for it (docs.python.org/3/howto/logging.html#optimization).
    logging._srcfile = None  # noqa: SLF001 (as it is documented)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if log_format == "json" else _Text("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        logging.getLogger("kopf").setLevel(logging.WARNING)
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a port scanner's broken handshakes
    server = logging.getLogger("aiohttp.server")
    server.removeFilter(_no_scanners)
    if level != "debug":
        server.addFilter(_no_scanners)


def _no_scanners(record: logging.LogRecord) -> bool:
    """What is no HTTP gets its 400. aiohttp would log a traceback each time, with what was sent in it."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        first, *rest = super().format(record).split("\n", 1)
        facts = "".join(f" {name}={value}" for name, value in getattr(record, "facts", {}).items())
        return "\n".join((first + facts, *rest))
