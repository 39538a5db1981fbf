"""Captions of figures, written for Snakemake's report, on a page of Markdown."""

import re
from pathlib import Path

MARKUP = (
    (r"\\\s", ""),  # an escaped space only separates markup from text
    (r":sub:`([^`]*)`", r"<sub>\1</sub>"),
    (r":sup:`([^`]*)`", r"<sup>\1</sup>"),
    (r"``([^`]*)``", r"`\1`"),
)
"""Patterns of reStructuredText in captions, and their replacement in Markdown."""


def markdown(path: str | Path) -> str:
    """The paragraphs of a caption or of notes as Markdown, without those that Snakemake fills in."""
    paragraphs = Path(path).read_text(encoding="utf-8").strip().split("\n\n")
    return "\n\n".join(_paragraph(text) for text in paragraphs if not re.search(r"\{\{|\{%", text))


def _paragraph(text: str) -> str:
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"\s+", " ", text.strip())
