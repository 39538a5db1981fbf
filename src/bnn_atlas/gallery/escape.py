"""Texts of studies and claims on a page of Markdown: they show as they were written, whatever characters they hold."""

import re

CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
"""A code span, which is kept: what is inside one is text already."""
MARKUP = re.compile(r"[\\`*\[\]~$|]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that mean something anywhere in a line; an underscore does so at the edge of a word only."""
MINUS = re.compile(r"(?<![\w.-])-(?=\.?\d)")
"""A hyphen that stands for the sign of a number."""
FIRST = re.compile(r"[#+-](?=\s|#|$)|\d+(?=[.)]\s)")
"""What makes a heading or an item of a list at the beginning of a line."""


def plain(text: str) -> str:
    """Text on one line with its code spans, in which no other character is markup or HTML."""
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
    """A statement within a cell, with the minus signs of its numbers."""
    return cell(MINUS.sub("\N{MINUS SIGN}", str(text)))


def cell(text: str) -> str:
    """The same within a cell of a table, where a bar ends the cell even in a code span."""
    return re.sub(r"(?<!\\)\|", r"\\|", plain(text))


def _escaped(text: str) -> str:
    text = MARKUP.sub(lambda found: f"\\{found[0]}", text.replace("&", "&amp;"))
    return text.replace("<", "&lt;").replace(">", "&gt;")
