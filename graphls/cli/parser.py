"""The parser of arguments, which suggests the nearest command, option or value for one that there is not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from graphls.ir.registry import nearest


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors suggest the nearest name; the parsers of commands are of this class, too."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """The options of arguments; ends the process with 2 for wrong ones."""
        options, others = self.parse_known_args(args, namespace)
        if others:
            words = sys.argv[1:] if args is None else args
            command = next((each for each in self._commands(words) if each is not None), self)
            command.unknown(others)
        return options

    def unknown(self, arguments: Sequence[str]) -> NoReturn:
        """End the process with an error that names arguments that there are not, and the nearest option."""
        first = next((each for each in arguments if each.startswith("-")), "").partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        self.error(f"unrecognized arguments: {' '.join(arguments)}{nearest(first, known) if first else ''}")

    def _commands(self, words: Sequence[str]) -> Iterator[Parser | None]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from (action.choices.get(word) for word in words)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = nearest(str(value), map(str, action.choices or ()))
            if near and "did you mean" not in error.message and "maybe you meant" not in error.message:
                error.message += near
            raise
