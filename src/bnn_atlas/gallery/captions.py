"""Captions of figures, written for Snakemake's report, on a page of Markdown."""

import re
from pathlib import Path

MARKUP = (
    (r"\\\s", ""),  # an escaped space only parts markup from text
    (r":sub:`([^`]*)`", r"<sub>\1</sub>"),
    (r":sup:`([^`]*)`", r"<sup>\1</sup>"),
    (r"``([^`]*)``", r"`\1`"),
)
"""What reStructuredText writes in another way than Markdown, as far as captions use it."""


def caption(path: str | Path) -> str:
    """First paragraph of a caption as one line of Markdown; sentences that Snakemake would fill in are left out."""
    paragraph = Path(path).read_text(encoding="utf-8").strip().split("\n\n")[0]
    sentences = re.split(r"(?:(?<=[.!?])|(?<=[.!?]\*\*))\s+", paragraph)
    text = " ".join(sentence for sentence in sentences if not re.search(r"\{\{|\{%", sentence))
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"\s+", " ", text)
