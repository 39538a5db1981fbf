"""The words of verdicts, texts and numbers as they are written, and the templates that they fill."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from bnn_atlas.claims.rules import Verdict
from bnn_atlas.config.language.base import plural
from bnn_atlas.files import atomic

KINDS = {
    Verdict.AGREES: "good",
    Verdict.HOLDS: "good",
    Verdict.SMALLER: "partly",
    Verdict.DIFFERS: "bad",
    Verdict.DOES_NOT_HOLD: "bad",
    Verdict.ERRATUM: "note",
    Verdict.CANNOT_TELL: "open",
    Verdict.CANNOT_SHOW: "open",
    Verdict.TO_RUN: "run",
}
"""Verdict -> what it means to a reader, which gives it its colour and mark; in the order of counts."""
PLURAL = {
    Verdict.AGREES: "agree",
    Verdict.DIFFERS: "differ",
    Verdict.HOLDS: "hold",
    Verdict.SMALLER: "hold, smaller",
    Verdict.DOES_NOT_HOLD: "do not hold",
    Verdict.ERRATUM: "errata",
}
"""Verdict -> the word for several claims, if it is another one."""
OWN = "own"
"""Where a claim was read that no paper makes."""
READ_IN = {
    "text": "the text",
    "table": "tables",
    "figure": "figures",
    "file": "published files",
    "notebook": "notebooks",
    "follow_up": "a later paper",
    OWN: "this project",
}
"""Where a claim was read -> its words."""
SIZES = {"equals": "± {}", "above": "> {}", "below": "< {}", "alike": "± {}", "at_least": "≥ {}", "at_most": "≤ {}"}
"""Relation -> the size that matters, in short."""
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
"""A code span, which is kept: its contents are literal already."""
MARKUP = re.compile(r"[\\`*\[\]~$|]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning anywhere in a line; an underscore has one only at the edge of a word."""
SIGN = re.compile(r"(?<![\w.-])-(?=\.?\d)")
"""A hyphen that stands for the sign of a number."""
FIRST = re.compile(r"[#+-](?=\s|#|$)|\d+(?=[.)]\s)")
"""What starts a heading or a list item at the beginning of a line."""
IN_CAPTIONS = (
    (r"\*\*(.+?)\*\*", r"<b>\1</b>"),
    (r"(?<![\w*])\*(?!\s)(.+?)(?<!\s)\*(?!\w)", r"<i>\1</i>"),
    (r"`(.+?)`", r"<code>\1</code>"),
    (r"&lt;(/?su[bp])&gt;", r"<\1>"),
)
"""Patterns of the Markdown of captions, escaped for HTML, and their replacement."""
DASH = "–"


def in_order(verdicts: Iterable[str]) -> dict[str, int]:
    """Verdict -> how often it is given, in the order of `KINDS`."""
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in KINDS if found[verdict]}


def counted(verdicts: Mapping[str, int]) -> str:
    """`28 agree, 3 differ, 10 to run`."""
    words = ((n, PLURAL.get(Verdict(verdict), verdict) if n > 1 else verdict) for verdict, n in verdicts.items())
    return ", ".join(f"{number} {word.replace(', ', ' but ')}" for number, word in words)


def plain(text: object) -> str:
    """Text on one line of Markdown with its code spans, and no other markup or HTML."""
    text = signed(" ".join(str(text).split()))
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


def cell(text: object) -> str:
    """`plain` in a cell of a table, where a bar would end the cell even in a code span."""
    return re.sub(r"(?<!\\)\|", r"\\|", plain(text))


def signed(text: object) -> str:
    """Text with real minus signs in its numbers."""
    return SIGN.sub("\N{MINUS SIGN}", str(text))


def captioned(text: str) -> Markup:
    """The Markdown of a caption (`pictures.markdown`) as HTML."""
    html = str(escape(text))
    for pattern, replacement in IN_CAPTIONS:
        html = re.sub(pattern, replacement, html)
    return Markup("".join(f"<p>{part}</p>" for part in html.split("\n\n") if part))


def number(value: float | None, digits: int = 4) -> str:
    """A number with `digits` decimals and a real minus sign; a dash for none."""
    return DASH if value is None or math.isnan(value) else signed(f"{value:.{digits}f}")


def brief(value: float | None) -> str:
    """A number with three significant digits; a dash for none."""
    if value is None or math.isnan(value):
        return DASH
    return signed(f"{value:.3g}" if 1e-3 <= abs(value) < 1e5 or not math.isfinite(value) else f"{value:.2g}")


def asked(relation: str, size: float | None) -> str:
    """The size that matters for a claim, or its bound, in short; empty if there is none."""
    if size is None:
        return ""
    return SIZES[relation].format(brief(0.0 - size if relation == "below" else size))


def with_error(value: float | None, error: float | None, digits: int | None = None) -> str:
    """`0.1234 ± 0.0012`; a dash if there is no value. Without `digits`, both have three significant digits."""
    value_text, error_text = (brief(x) if digits is None else number(x, digits) for x in (value, error))
    return value_text if DASH in (value_text, error_text) else f"{value_text} ± {error_text}"


def duration(seconds: float) -> str:
    """`1 h 05 min`, or `12 min`, or `40 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def write(path: Path, template: str, **values: Any) -> None:
    """Fill a template of this room; HTML and SVG are escaped as a whole, Markdown where its template says so."""
    text = _environment().get_template(template).render(**values)
    with atomic(path, flush=False) as temporary:
        temporary.write_text(re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n", encoding="utf-8", newline="\n")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2", "svg.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        function.__name__: function for function in (plain, cell, signed, captioned, brief, duration, plural)
    }
    return made


def _escaped(text: str) -> str:
    text = MARKUP.sub(lambda found: f"\\{found[0]}", text.replace("&", "&amp;"))
    return text.replace("<", "&lt;").replace(">", "&gt;")
