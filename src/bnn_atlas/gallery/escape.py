"""Escape texts of studies and claims for Markdown, so that they show as written whatever characters they contain."""

import re

CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
"""A code span, which is kept: its contents are literal already."""
MARKUP = re.compile(r"[\\`*\[\]~$|]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning anywhere in a line; an underscore has one only at the edge of a word."""
MINUS = re.compile(r"(?<![\w.-])-(?=\.?\d)")
"""A hyphen that stands for the sign of a number."""
FIRST = re.compile(r"[#+-](?=\s|#|$)|\d+(?=[.)]\s)")
"""What starts a heading or a list item at the beginning of a line."""


def plain(text: str) -> str:
    """Text on one line with its code spans, and no other markup or HTML."""
    text = " ".join(str(text).split())
    parts, end = [], 0
    for span in CODE.finditer(text):
        parts += [_escaped(text[end : span.start()]), span[0]]
        end = span.end()
    parts.append(_escaped(text[end:]))
    escaped = "".join(parts)
    start = FIRST.match(text)
    if start is None:
        return escaped
    return f"{start[0]}\\{escaped[start.end() :]}" if start[0].isdigit() else f"\\{escaped}"


def sentence(text: str) -> str:
    """A statement in a cell, with real minus signs in its numbers."""
    return cell(MINUS.sub("\N{MINUS SIGN}", str(text)))


def cell(text: str) -> str:
    """`plain` in a cell of a table, where a bar would end the cell even in a code span."""
    return re.sub(r"(?<!\\)\|", r"\\|", plain(text))


def _escaped(text: str) -> str:
    text = MARKUP.sub(lambda found: f"\\{found[0]}", text.replace("&", "&amp;"))
    return text.replace("<", "&lt;").replace(">", "&gt;")
