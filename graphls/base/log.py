"""The log of a script, as `mindspore.log` names it: messages of the logger "graphls" on stderr.

Messages below the level that the environment gives as GLOG_v (0 debug, 1 info, 2 warning, 3 error, 4 critical) are left
out; without it those below warning are.
"""

from __future__ import annotations

import logging
import os
from typing import Any

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_logger = logging.getLogger("graphls")


def get_level() -> str:
    """The level as MindSpore counts it, "0" to "4"."""
    level = os.environ.get("GLOG_v", "2")  # noqa: SIM112  (that is its name)
    return level if level in ("0", "1", "2", "3", "4") else "2"


def get_log_config() -> dict[str, str]:
    """The settings of the log by their names in the environment."""
    return {"GLOG_v": get_level(), "GLOG_logtostderr": os.environ.get("GLOG_logtostderr", "1")}  # noqa: SIM112


def debug(msg: object, *args: object, **kwargs: object) -> None:
    """Log a message for debugging."""
    _log(logging.DEBUG, msg, args, kwargs)


def info(msg: object, *args: object, **kwargs: object) -> None:
    """Log a message about normal progress."""
    _log(logging.INFO, msg, args, kwargs)


def warning(msg: object, *args: object, **kwargs: object) -> None:
    """Log a message about a possible fault."""
    _log(logging.WARNING, msg, args, kwargs)


def error(msg: object, *args: object, **kwargs: object) -> None:
    """Log a message about a fault."""
    _log(logging.ERROR, msg, args, kwargs)


def critical(msg: object, *args: object, **kwargs: object) -> None:
    """Log a message about a fault that ends the run."""
    _log(logging.CRITICAL, msg, args, kwargs)


def _log(level: int, msg: object, args: tuple[object, ...], options: dict[str, Any]) -> None:
    if level >= LEVELS[int(get_level())]:
        _set_up()
        _logger.log(level, msg, *args, **options)


def _set_up() -> None:
    """Print to stderr, unless the script has set up logging of its own."""
    _logger.setLevel(logging.DEBUG)
    if not _logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[%(levelname)s] %(asctime)s %(message)s"))
        _logger.addHandler(handler)
