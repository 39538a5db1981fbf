"""Lines of configuration files for errors that are found after a file was read, and name the file and the key."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bnn_atlas.config.base import ConfigError
from bnn_atlas.config.reading import Lines

HAS_LINE = re.compile(r"\(line \d+[^()]*\)$")


@contextmanager
def with_lines(*files: Path, lines: Callable[[Path], Lines] = Lines) -> Iterator[None]:
    """End errors about these files with the line of the key that they name: `<file>: <key>.<key>: ... (line 3)`.

    A file is named by its path, or as one of config/. Of an error at a scale, the line is that of what the scale
    changes, if it changes this key. Errors that have a line, or name no key of a file, stay as they are. `lines` finds
    the lines of a file.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError("\n".join(_located(text, files, lines) for text in str(error).splitlines())) from None


def _located(text: str, files: tuple[Path, ...], lines: Callable[[Path], Lines]) -> str:
    """One problem with its line, where that is known."""
    if HAS_LINE.search(text):
        return text
    for file in files:
        names = "|".join(re.escape(name) for name in (str(file), f"config/{file.parent.name}/{file.name}"))
        found = re.match(rf"(?:{names})(?: at scale (?P<scale>\w+))?: (?P<keys>[^\s:=]+)", text)
        if found and file.is_file() and (line := _line(lines(file), found["keys"].split("."), found["scale"])):
            return f"{text} (line {line})"
    return text


def _line(lines: Lines, keys: list[str], scale: str | None) -> int | None:
    """Line of a key, or of the last one before it that the file has; None where it has none."""
    at_scale = [[*keys[:i], "scales", scale, *keys[i:]] for i in range(2, len(keys))] if scale else []
    for place in at_scale:
        line, whole = lines.of_name(".".join(map(str, place)))
        if whole:
            return line
    return lines.of_name(".".join(keys))[0]
