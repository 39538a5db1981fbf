"""One view of a judged study, from which the console, its page and its site are written."""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bnn_atlas.claims.estimate import UNPAIRED
from bnn_atlas.claims.plan import IDENTITIES
from bnn_atlas.claims.rules import AT_LIMIT, NOT_KNOWN, Verdict
from bnn_atlas.claims.texts import Numbers as Measured
from bnn_atlas.claims.verdict import CHAINS, leading
from bnn_atlas.config.language.base import plural
from bnn_atlas.files import read_parquet
from bnn_atlas.kept import Made, Origin, Place, RuleTime, farthest, made_on, rule_times
from bnn_atlas.metrics.judgement.checks import DIVERGED, Status
from bnn_atlas.metrics.judgement.pooled import CURVES
from bnn_atlas.metrics.judgement.trust import BY_WEIGHT, NO_CHAIN, trusts
from bnn_atlas.report.pictures import Figure, Numbers, figures, numbers
from bnn_atlas.report.scores import marks_of, score_sections
from bnn_atlas.report.text import KINDS, OWN, READ_IN, asked, brief, counted, duration, in_order, signed, with_error

REACH = 3.0
"""Largest distance from the published number that the forest shows, in sizes that matter."""
MOST_NAMED = 6
MOST_ROWS = 16
"""Each family with more numbers than this has a single row in the forest."""
LOPSIDED = 0.01
"""A finding says how many numbers lie on one side if chance alone does so with a probability below this."""
PUBLISHED_PROBLEM = IDENTITIES[:2]
"""Identities of claims about the published problem, with its settings or reduced ones."""
IN_FIGURE = -1
"""Stands for the split of a figure's number."""
OUTCOMES = {
    "Agrees": "good",
    "Agrees in part": "partly",
    "Differs": "bad",
    "Mixed": "mixed",
    "Erratum": "note",
    "Not decided": "open",
    "To run": "run",
}
"""What came of a finding -> the kind of its main claim (`text.KINDS`), or `mixed`."""
HERE, ELSEWHERE = "on the paper's problem", "on other problems"
"""Where claims were tested, as the counts of a study tell them apart."""
UNSETTLED = {"What differs": ("bad", "note"), "What is open": ("open",)}
"""Heading of a table of claims -> the kinds that it has."""
TEXTS = (
    "statement", "read_in", "place", "identity", "verdict", "here", "basis", "reason", "needed", "cause", "certainty",
    "decided_by", "result", "erratum", "trust", "figure", "finding",
)  # fmt: skip
"""Columns of the table of claims that are texts of a `Claim`."""
ORIGINS = {
    Origin.HERE: "from runs made here",
    Origin.ARCHIVE: "from an archive of results",
    Origin.CLONE: "from results in the repository",
    Origin.EARLIER: "measured by an earlier version of the code",
}
"""Where results come from -> its words after a number of claims."""
WORDS = ("point", "at", "note", "trust")
"""Columns of the summary that hold text and may be empty."""


class Claim(NamedTuple):
    """A claim as readers see it; texts are empty where there is nothing to say."""

    name: str
    statement: str
    citation: str
    read_in: str
    place: str
    identity: str
    verdict: str
    paper: str
    here: str
    at_infinity: str
    size: str
    basis: str
    distance: str
    reason: str
    needed: str
    cause: str
    certainty: str
    decided_by: str
    result: str
    erratum: str
    trust: str
    figure: str
    finding: str
    family: str
    """The entry in the file of claims that it was made from, alone or with others."""
    source: str
    """Short name of where it was read, if that is not the study's paper."""
    reduced: tuple[int, ...]
    """Which of the study's `reductions`."""
    rows: tuple[str, ...]
    """The rows of the metric tables that answered."""
    published: bool
    """Whether it is about a published number."""
    off: float | None
    """Difference from the published number, in sizes that matter."""
    error: float
    """Two standard errors of it, in the same unit."""
    cost: str
    """Time of the jobs of its runs here; empty if it is not known."""
    command: str
    """What makes its runs, or its figure."""
    origin: str
    """Where what answered it comes from (`kept.Origin`); empty if nothing did."""
    unpaired: bool
    """Whether its error is too large, since rows on both sides could not be paired."""
    mark: str
    """The same on a page that counts only what was made here, for a claim that something else answered; else empty."""

    @property
    def kind(self) -> str:
        """What its verdict means to a reader."""
        return KINDS[Verdict(self.verdict)]

    @property
    def note(self) -> str:
        """What of the reason belongs beside the number: that it is at the limit, or that its error is not known."""
        return "; ".join(part for part in self.reason.split("; ") if part.startswith((AT_LIMIT, NOT_KNOWN)))

    @property
    def why(self) -> str:
        """The cause or, where something is still open, the reason; `unknown` for what differs without a known cause."""
        return self.erratum or self.cause or ("unknown" if self.kind == "bad" else self.reason)

    @property
    def where(self) -> str:
        """Where it was read."""
        if self.read_in == OWN:
            return "this project's own question"
        return ", ".join(filter(None, (self.source, self.place or READ_IN[self.read_in])))


class Count(NamedTuple):
    """Claims of one kind: how many have each verdict, for each identity."""

    title: str
    of: dict[str, dict[str, int]]
    """Identity -> verdict -> number."""
    read: dict[str, int]
    """Where they were read -> number."""
    reduced: str
    """How many of those to run were measured at a reduction, and what came out; empty if there are none."""

    @property
    def verdicts(self) -> dict[str, int]:
        """Verdict -> number."""
        return in_order(verdict for of in self.of.values() for verdict, number in of.items() for _ in range(number))

    @property
    def total(self) -> int:
        """Number of claims."""
        return sum(self.verdicts.values())

    @property
    def parts(self) -> dict[str, dict[str, int]]:
        """`HERE` and `ELSEWHERE`, as far as there are claims -> verdict -> number."""
        elsewhere = self.of[IDENTITIES[-1]]
        here = in_order(v for name, of in self.of.items() if name != IDENTITIES[-1] for v in Counter(of).elements())
        return {title: of for title, of in ((HERE, here), (ELSEWHERE, elsewhere)) if of}

    @property
    def words(self) -> str:
        """How many have each verdict, on the paper's problem and on others."""
        if self.parts.keys() <= {HERE}:
            return counted(self.verdicts)
        return ", ".join(f"{sum(of.values())} {title} ({counted(of)})" for title, of in self.parts.items())


class Card(NamedTuple):
    """A finding, with the numbers of the claim that decides it."""

    statement: str
    claim: Claim
    verdicts: dict[str, int]
    """Verdict -> how many of the claims behind it have it."""
    one_side: str
    """How many numbers of the finding lie on one side of the published ones; empty unless nearly all do."""
    caveat: str
    figure: str
    """A figure with a picture; empty without one."""
    left_out: int = 0
    """How many of its claims do not count, since results made here do not answer them."""

    @property
    def outcome(self) -> str:
        """The key of `OUTCOMES` for the finding: that of its main claim, if half of those judged share it."""
        kinds = Counter(KINDS[Verdict(verdict)] for verdict in Counter(self.verdicts).elements())
        judged = kinds.total() - kinds["run"]
        main = self.claim.kind
        alike = kinds["good"] + kinds["partly"] if main in ("good", "partly") else kinds[main]
        if 2 * alike < judged:
            return "Mixed"
        kind = "partly" if main == "good" and kinds.keys() != {"good"} else main
        return next(title for title, of in OUTCOMES.items() if of == kind)

    @property
    def behind(self) -> str:
        """How many of the claims behind it have each verdict; empty if there is only one."""
        number = sum(self.verdicts.values())
        if self.left_out:
            return f"{number} of {number + self.left_out} claims, by results made here: {counted(self.verdicts)}"
        return f"{number} claims: {counted(self.verdicts)}" if number > 1 else ""


class Mark(NamedTuple):
    """One published number in the forest, in pixels from the left; `beyond` if it is off the scale."""

    claim: Claim
    x: float
    low: float
    high: float
    beyond: bool


class Run(NamedTuple):
    """A run of the study."""

    name: str
    entry: str
    settings: dict[str, Any]
    reductions: str
    trust: dict[int, str]
    """Split -> whether its draws can be trusted; empty if it was not run."""
    scores: dict[str, list[tuple[str, str, str]]]
    """What it is of -> metric, value with its standard error, and number of chains; without splits that diverged."""
    made: str
    """Machine and time."""
    diagnostics: dict[int, Path]
    """Split -> the picture of its diagnostics page."""
    figures: list[str]
    marks: dict[int, str]
    """Split -> where its results come from, on a page that counts only what was made here, for other results."""


class Step(NamedTuple):
    """A way to check the study."""

    cost: str
    command: str
    shows: str


class StudyView(NamedTuple):
    """Everything that readers see of a study."""

    name: str
    title: str
    paper: str
    could_be_read: str
    """What of the paper could be read, in a sentence or two; empty for all of it."""
    no_claim: dict[str, list[str]]
    """The reason why published numbers have no claim -> their keys, in which `*` stands for any text."""
    scale: str
    command: str
    sentence: str
    counts: list[Count]
    """Of all claims or, with `count_here`, of those that results made here answer."""
    origins: dict[Origin, int]
    """Where answers come from -> number of claims."""
    count_here: bool
    posterior: str
    cards: list[Card]
    own: list[Card]
    """Findings that the paper does not have."""
    elsewhere: list[Card]
    """With `count_here`, the findings of both kinds of which results made here answer no claim; they do not count."""
    forest: dict[str, list[list[Mark]]]
    """Where published numbers were read -> the numbers that have been judged and count, by row: one number each, or all
    of a family of more than `MOST_ROWS`."""
    unsettled: dict[str, list[list[Claim]]]
    """Key of `UNSETTLED` -> its claims that count, with claims of one family and one verdict together."""
    to_run: dict[str, list[Claim]]
    """What would settle claims that were not run -> these claims."""
    claims: list[Claim]
    rows_only: str
    """How many claims about shifted rows or other data have no errors over chains, in a sentence; empty for none."""
    judged: pd.DataFrame | None
    """The table of claims as it is."""
    reductions: list[str]
    figures: list[Figure]
    takeaways: dict[str, list[Claim]]
    """Figure -> the claims about what it shows."""
    remade: dict[str, str]
    """Figure -> the command that makes it."""
    shown: dict[str, list[str]]
    """Figure -> the runs that it shows."""
    figure_marks: dict[str, str]
    """Figure -> where it or a run that it shows comes from, with `count_here`, if that is not here."""
    runs: list[Run]
    steps: list[Step]
    differences: list[str]
    marks: list[str]
    scores: list[dict[str, Any]]
    rounded: bool
    """Whether scores have a standard deviation by rounding."""
    summary: Numbers
    run_table: Path
    made: list[Made]
    times: list[RuleTime]

    @property
    def answers(self) -> str:
        """How many claims are answered by results of each origin, in a sentence or two; empty for none."""
        listed = ", ".join(f"{number} {ORIGINS[origin]}" for origin, number in self.origins.items())
        only = " Only those from runs made here are counted." if self.count_here else ""
        total = sum(self.origins.values())
        return f"{total} of {plural(len(self.claims), 'claim')} were answered: {listed}.{only}" if listed else ""

    @property
    def extent(self) -> str:
        """The number of figures and of runs; with `count_here`, how many of them were made here."""
        if not self.count_here:
            return f"{plural(len(self.figures), 'figure')} · {plural(len(self.runs), 'run')}"
        drawn = sum(figure.name not in self.figure_marks for figure in self.figures)
        ran = sum(bool(run.trust) and not run.marks for run in self.runs)
        return f"made here: {drawn} of {plural(len(self.figures), 'figure')}, {ran} of {plural(len(self.runs), 'run')}"


def study_view(
    *,
    study: Mapping[str, Any],
    scale: str,
    command: str,
    files: Sequence[str | Path],
    captions: Mapping[str, Mapping[str, str]],
    table: pd.DataFrame,
    summary: str | Path,
    runs: str | Path,
    rows: Sequence[Mapping[str, Any]],
    claims: str | Path | None,
    jobs: pd.DataFrame,
    entries: Mapping[str, str],
    datasets: Mapping[str, str],
    steps: Sequence[tuple[str, str, int, Collection[str]]],
    shown: Mapping[str, Sequence[str]],
    diagnostics: str | Path,
    origins: Mapping[Place, Origin],
    drawn: Mapping[str, Origin],
    count_here: bool = False,
) -> StudyView:
    """The view of one study at one scale.

    Args:
        study: `name`, `title`, `paper`, `differences` (a sentence each), `findings` (fields of
            `config.claims.load.Finding`), `cites` (what claims cite unless they are from elsewhere), `could_be_read`
            (of the paper), `families` (claim -> the family that it belongs to) and `no_claim` (key of published
            numbers -> why no claim is about them).
        scale: name of the scale.
        command: the commands that make the results.
        files: the PNG, CSV and LaTeX files of all figures, named after the figure.
        captions: figure -> its `title`, its `caption` and `notes` (.rst files, as for Snakemake's report; either may be
            missing) and `text`, which follows the first sentence.
        table: the metric table of the study.
        summary: the same, pooled (.csv).
        runs: the table of its runs (.csv).
        rows: the settings of its runs, which are the rows of `runs`.
        claims: the table of claims of all studies (.parquet); None for a study without claims.
        jobs: time and machine of each job (`kept.read_jobs`).
        entries: run -> its entry in the study's file.
        datasets: data set -> its title.
        steps: the steps of its claims, each with its name, what it takes, its number of claims, and its runs.
        shown: figure -> the runs of the study that it shows.
        diagnostics: the folder of the pictures of the diagnostics pages, if they were made.
        origins: run and split -> where its results come from.
        drawn: figure -> the same.
        count_here: whether only what was made here counts: the claims that it answers, and findings with such claims.
    """
    pooled = pd.read_csv(summary, dtype=dict.fromkeys(WORDS, str)).fillna(dict.fromkeys(WORDS, ""))
    pictured = figures(files, captions, datasets)
    judged = read_claims(study["name"], claims) if claims else None
    reductions = _reductions(judged)
    took = _seconds(study["name"], jobs)
    origin = {**origins, **{(name, IN_FIGURE): one for name, one in drawn.items()}}
    found = (
        []
        if judged is None
        else [_claim(row, study, reductions, took, entries, origin, count_here) for row in judged.to_dict("records")]
    )
    pictures = {figure.name for figure in pictured if figure.picture}
    no_claim: dict[str, list[str]] = {}
    for key, why in study["no_claim"].items():
        no_claim.setdefault(why, []).append(key)
    measured = Measured({} if judged is None else dict(zip(judged["claim"], judged["here"], strict=True)), table)
    counting = [claim for claim in found if claim.origin == Origin.HERE] if count_here else found
    cards: list[Card] = []
    elsewhere: list[Card] = []
    for one in study["findings"]:
        behind = [claim for claim in counting if claim.name in one["claims"]]
        (cards if behind else elsewhere).append(_card(one, behind or found, measured, pictures))
    counts = count(counting)
    made = made_on(jobs, study["name"], entries)
    marks = {place: _mark(one, count_here) for place, one in origins.items()}
    ran = _runs(table, rows, made, shown, Path(diagnostics), marks)
    waiting: dict[str, list[Claim]] = {}
    for claim in found:
        if claim.verdict == Verdict.TO_RUN:
            waiting.setdefault(claim.needed or claim.reason, []).append(claim)
    return StudyView(
        name=study["name"],
        title=study["title"],
        paper=study["paper"].rstrip("."),
        could_be_read=study["could_be_read"],
        no_claim=no_claim,
        scale=scale,
        command=command,
        sentence=sentence(counts) or ("No claim is answered by results made here." if found else ""),
        counts=counts,
        origins={one: n for one in Origin if (n := sum(claim.origin == one for claim in found))},
        count_here=count_here,
        posterior=_posterior(ran, counting),
        cards=[card for card in cards if card.claim.read_in != OWN],
        own=[card for card in cards if card.claim.read_in == OWN],
        elsewhere=elsewhere,
        forest=_forest(counting),
        unsettled={title: _unsettled(of, counting) for title, of in UNSETTLED.items()},
        to_run=waiting,
        claims=found,
        rows_only=_rows_only(judged),
        judged=judged,
        reductions=reductions,
        figures=pictured,
        takeaways={figure.name: _about(figure.name, found) for figure in pictured},
        remade={
            figure.name: f"snakemake --cores 2 {study['name']}_{figure.name} --config scale={scale}"
            for figure in pictured
        },
        shown={name: list(names) for name, names in shown.items()},
        figure_marks={name: mark for name, one in drawn.items() if (mark := _mark(one, count_here))},
        runs=ran,
        steps=_steps(study["name"], steps, took, jobs["seconds"].sum(), count_here),
        differences=list(study["differences"]),
        marks=list(dict.fromkeys(mark for note in pooled["note"] if (mark := marks_of(note)))),
        scores=score_sections(pooled, datasets),
        rounded="rounding_sd" in pooled and bool(pooled["rounding_sd"].notna().any()),
        summary=numbers(Path(summary)),
        run_table=Path(runs),
        made=made,
        times=rule_times(jobs),
    )


def read_claims(study: str, table: str | Path) -> pd.DataFrame:
    """The rows of one study in the table of claims."""
    judged = read_parquet(table)
    return judged[judged["study"] == study].reset_index(drop=True)


def count(claims: Collection[Claim]) -> list[Count]:
    """Published numbers, statements in words and this project's own questions, as far as there are any."""
    parts = {
        ("published number", "published numbers"): [c for c in claims if c.published],
        ("statement in words", "statements in words"): [c for c in claims if not c.published and c.read_in != OWN],
        ("question of this project", "questions of this project"): [c for c in claims if c.read_in == OWN],
    }
    return [
        Count(
            titles[len(of) > 1],
            {name: in_order(claim.verdict for claim in of if claim.identity == name) for name in IDENTITIES},
            dict(Counter(claim.read_in for claim in of)),
            _measured_reduced(of),
        )
        for titles, of in parts.items()
        if of
    ]


def sentence(counts: Sequence[Count]) -> str:
    """What came out, in one sentence; empty without claims."""
    papers = [one for one in counts if one.read.keys() != {OWN}] or counts
    text = "; ".join(f"{one.total} {one.title}: {one.words}{one.reduced}" for one in papers)
    return f"{text}." if text else ""


def _measured_reduced(claims: Collection[Claim]) -> str:
    """How many published numbers to run were measured at a reduction, and how many of them are beyond their size."""
    off = [abs(claim.off) for claim in claims if claim.verdict == Verdict.TO_RUN and claim.off is not None]
    beyond = sum(one > 1 for one in off)
    return (
        f" (measured at a reduced setting: {len(off)}, of which {beyond} are off by more than their size)"
        if off
        else ""
    )


def _claim(
    row: Mapping[Hashable, Any],
    study: Mapping[str, Any],
    reductions: Sequence[str],
    took: Mapping[str, float],
    entries: Mapping[str, str],
    origins: Mapping[Place, Origin],
    count_here: bool,
) -> Claim:
    """A row of the table of claims."""
    size, d, error = (_given(row[name]) for name in ("size", "d", "error"))
    at_infinity, infinity_error = (_given(row[name]) for name in ("at_infinity", "infinity_error"))
    published = row["relation"] == "equals" and row["read_in"] != OWN and _given(row["paper_value"]) is not None
    texts = {name: signed(row[name]) for name in TEXTS}
    runs = {one["run"] for one in row["rows"]}
    seconds = sum(took.get(run, 0.0) for run in runs)
    made = {f"{row['study']}_{row['figure']}" if run == row["figure"] else entries.get(run, run) for run in runs}
    places = [(one["run"], one["split"] if one["chains"] else IN_FIGURE) for one in row["rows"]]
    origin = "" if row["verdict"] == Verdict.TO_RUN else farthest(map(origins.__getitem__, places))
    return Claim(
        **texts,
        name=row["claim"],
        citation=row["paper"],
        family=study["families"].get(row["claim"], row["claim"]),
        source="" if row["paper"] == study["cites"] else row["paper"].partition(",")[0],
        paper=signed(row["paper_text"]),
        at_infinity="" if at_infinity is None else with_error(at_infinity, infinity_error),
        size=asked(row["relation"], size),
        distance="" if d is None else with_error(d, error),
        reduced=tuple(number for number, text in enumerate(reductions, 1) if text in set(row["reductions"])),
        rows=tuple(map(_row_text, row["rows"])),
        published=published,
        off=d / size if published and d is not None and size else None,
        error=2 * (error or 0.0) / size if published and size else 0.0,
        cost=duration(seconds) if seconds else "",
        command=f"snakemake --cores 2 {' '.join(sorted(made))} --config scale={row['scale']}" if made else "",
        origin=origin,
        unpaired=row["difference_over"] == UNPAIRED,
        mark=_mark(origin, count_here),
    )


def _mark(origin: str, count_here: bool) -> str:
    """The origin of results that do not count; empty for all others."""
    return str(origin) if count_here and origin != Origin.HERE else ""


def _card(finding: Mapping[str, Any], claims: Sequence[Claim], measured: Measured, pictures: Collection[str]) -> Card:
    """A finding, with those of its claims that are among some claims."""
    by_name = {claim.name: claim for claim in claims}
    of = [by_name[name] for name in finding["claims"] if name in by_name]
    main = of[leading([(claim.verdict, claim.identity) for claim in of])]
    return Card(
        statement=signed(measured.filled(finding["statement"])),
        claim=main,
        verdicts=in_order(claim.verdict for claim in of),
        one_side=_one_side(of),
        caveat=signed(measured.filled(finding.get("caveat") or "")),
        figure=next((name for name in (main.figure, *(claim.figure for claim in of)) if name in pictures), ""),
        left_out=len(finding["claims"]) - len(of),
    )


def _forest(claims: Collection[Claim]) -> dict[str, list[list[Mark]]]:
    judged = [claim for claim in claims if claim.off is not None and claim.verdict != Verdict.TO_RUN]
    sizes = Counter(claim.family for claim in judged)
    found: dict[str, dict[str, list[Mark]]] = {}
    for claim in judged:
        off = claim.off or 0.0
        x, low, high = (max(-REACH, min(REACH, value)) for value in (off, off - claim.error, off + claim.error))
        row = claim.family if sizes[claim.family] > MOST_ROWS else claim.name
        mark = Mark(claim, x, low, high, abs(off) > REACH)
        found.setdefault(claim.read_in, {}).setdefault(row, []).append(mark)
    return {read_in: list(rows.values()) for read_in, rows in found.items()}


def _one_side(claims: Collection[Claim]) -> str:
    """How many of the judged numbers lie on one side of the published ones, if nearly all do; else empty.

    Numbers with unknown settings or on another problem do not count. Nearly all lie on one side if a count at least as
    high has a probability below `LOPSIDED` when each number is equally likely to lie on either side, independently of
    the others. Points of the same runs are not independent, so the text is a count, not a test.
    """
    judged = [claim for claim in claims if claim.identity in PUBLISHED_PROBLEM and claim.verdict != Verdict.TO_RUN]
    signs = [off > 0 for claim in judged if (off := claim.off)]
    number, above = len(signs), sum(signs)
    most = max(above, number - above)
    if 2 * sum(math.comb(number, k) for k in range(most, number + 1)) / 2**number >= LOPSIDED:
        return ""
    return f"{most} of {number} numbers lie {'above' if above == most else 'below'} the published ones."


def _unsettled(kinds: Collection[str], claims: Collection[Claim]) -> list[list[Claim]]:
    """Claims of some kinds, by family: the paper's before our own, and first those behind a finding."""
    families: dict[tuple[str, ...], list[Claim]] = {}
    for claim in sorted((c for c in claims if c.kind in kinds), key=lambda c: (c.read_in == OWN, not c.finding)):
        families.setdefault((claim.family, claim.verdict, claim.identity), []).append(claim)
    return list(families.values())


def _about(figure: str, claims: Collection[Claim]) -> list[Claim]:
    """The claims about a figure: those that count, were run and stand behind a finding first."""
    of = [claim for claim in claims if claim.figure == figure]
    return sorted(of, key=lambda claim: (bool(claim.mark), claim.verdict == Verdict.TO_RUN, not claim.finding))


def _reductions(judged: pd.DataFrame | None) -> list[str]:
    """What the scale changes in the runs behind claims, each once."""
    return [] if judged is None else list(dict.fromkeys(text for texts in judged["reductions"] for text in texts))


def _seconds(study: str, jobs: pd.DataFrame) -> dict[str, float]:
    """Run -> time of its jobs."""
    parts = jobs["job"].str.split("/")
    of = jobs.assign(run=parts.str[1])[(parts.str[0] == study) & (jobs["rule"] != "figures")]
    return {str(run): float(seconds) for run, seconds in of.groupby("run")["seconds"].sum().items()}


def _rows_only(judged: pd.DataFrame | None) -> str:
    """How many claims rest on averages over draws, on sets of rows whose table has only the error over rows."""
    number = sum(
        any("/" in row["dataset"] and row["over"] == "rows" and _lacks_chains(row) for row in rows)
        for rows in (() if judged is None else judged["rows"])
    )
    if not number:
        return ""
    have = "have" if number > 1 else "has"
    return (
        f"{plural(number, 'claim')} about shifted rows or rows of other data {have} an error over rows only: the table "
        "was scored before errors over chains were measured there. Scoring the sets again adds them."
    )


def _lacks_chains(row: Mapping[str, Any]) -> bool:
    """Whether a row averages several draws and does not say how much it would vary with others."""
    return row["chains"] * row["draws"] > 1 and _given(row.get("monte_carlo_error")) is None


def _steps(
    study: str,
    steps: Iterable[tuple[str, str, int, Collection[str]]],
    took: Mapping[str, float],
    whole: float,
    count_here: bool,
) -> list[Step]:
    """Ways to check a study, from short to long, with the times of the jobs behind the results that there are."""
    chosen = f"'studies=[{study}]'"

    def measured(seconds: float) -> str:
        return f"jobs of this study: {duration(seconds)}, one after another" if seconds else "not measured yet"

    return [
        Step(
            "1 s",
            "",
            "what was made here, and, marked, what was not" if count_here else "everything as it was measured here",
        ),
        *(
            Step(
                f"{takes} ({measured(sum(took.get(run, 0.0) for run in runs))})",
                f"snakemake --cores 2 {name}",
                f"{plural(number, 'claim')}, with verdicts",
            )
            for name, takes, number, runs in steps
        ),
        Step(
            measured(whole),
            f"snakemake --cores 2 --config scale=laptop {chosen}",
            "all runs, reduced; a stopped run resumes",
        ),
        Step(
            "not measured yet",
            f"snakemake --cores 2 --config scale=paper {chosen}",
            "all runs at the paper's settings; with -n, an estimate of the time",
        ),
    ]


def _runs(
    table: pd.DataFrame,
    rows: Sequence[Mapping[str, Any]],
    made: Sequence[Made],
    shown: Mapping[str, Sequence[str]],
    diagnostics: Path,
    marks: Mapping[Place, str],
) -> list[Run]:
    trusted: dict[str, dict[int, str]] = {}
    for (run, split), trust in (trusts(table) if len(table) else {}).items():
        trusted.setdefault(run, {})[split] = trust.words
    last = table.groupby(["run", "split", "metric", "at", "dataset"], sort=False)[["chains", "draws"]].transform("max")
    whole = table[
        (table["chains"] == last["chains"]) & (table["draws"] == last["draws"]) & ~table["metric"].isin(CURVES)
    ]
    scores: dict[str, dict[str, list[tuple[str, str, str]]]] = {}
    columns = ("run", "split", "dataset", "metric", "at", "value", "standard_error", "chains")
    for run, split, dataset, metric, at, value, error, chains in zip(*(whole[c] for c in columns), strict=True):
        if DIVERGED in trusted.get(run, {}).get(split, ""):
            continue
        name = metric + (f" ({at})" if at else "")
        of = scores.setdefault(run, {}).setdefault(f"{dataset}, split {split}", [])
        of.append((name, _score(value, error), f"{chains:,.0f}"))
    times = {
        one.entry: f"{one.machine}; runs of this entry: {one.runs}, {one.cpu / 60:.1f} core-minutes" for one in made
    }
    return [
        Run(
            name=row["run"],
            entry=row["entry"],
            settings={
                key: value for key, value in row.items() if value not in (None, "") and key not in ("run", "reductions")
            },
            reductions=row["reductions"],
            trust=dict(sorted(trusted.get(row["run"], {}).items())),
            scores=scores.get(row["run"], {}),
            made=times.get(row["entry"], ""),
            diagnostics={
                split: picture
                for split in trusted.get(row["run"], {})
                if (picture := diagnostics / f"{row['run']}-split{split}.png").is_file()
            },
            figures=[figure for figure, names in shown.items() if row["run"] in names],
            marks={split: mark for (run, split), mark in marks.items() if run == row["run"] and mark},
        )
        for row in rows
    ]


def _posterior(runs: Iterable[Run], claims: Iterable[Claim]) -> str:
    """Whether chains that count sample the posterior, and which claims need them to; empty without chains."""
    statuses: dict[str, list[str]] = {}
    for run in runs:
        words = [text for split, text in run.trust.items() if text != NO_CHAIN and split not in run.marks]
        if words:
            statuses.setdefault(_worst(words), []).append(run.entry)
    number = sum(map(len, statuses.values()))
    if not number:
        return ""
    order = (Status.FINE, *reversed(BY_WEIGHT))
    counts = ", ".join(f"{len(statuses.get(status.value, []))} {status.value}" for status in order)
    text = f"Convergence of {number} {'run' if number == 1 else 'runs'}: {counts}"
    entries = list(dict.fromkeys(statuses.get(Status.DISTRUST.value, [])))
    if not entries:
        return f"{text}."
    named = ", ".join(entries[:MOST_NAMED]) + (" and others" if len(entries) > MOST_NAMED else "")
    unmixed = sum(claim.reason.startswith(CHAINS) for claim in claims)
    return (
        f"{text} ({named}). Averages of runs that are not to be trusted can be compared with the paper's, but are not "
        "averages over the posterior. Only claims that rest on a reference posterior, or on the bias that a sampler's "
        f"steps cause, need chains that have converged, and {plural(unmixed, 'claim')} could not be decided without."
    )


def _worst(words: Iterable[str]) -> str:
    """The worst status with which these texts on trust begin."""
    order = [status.value for status in BY_WEIGHT]
    found = (text.partition(":")[0] for text in words)
    return min(found, key=lambda word: order.index(word) if word in order else len(order))


def _row_text(row: Mapping[str, Any]) -> str:
    excluded = f" ({row['excluded']} excluded)" if row["excluded"] else ""
    return (
        f"{row['side']}: {row['run']} split {row['split']} {row['dataset']} {row['metric']}, {row['chains']} chains"
        f"{excluded}, {row['draws']} draws = {row['value']:.6g}"
    )


def _score(value: float, error: float | None) -> str:
    return brief(value) + ("" if error is None or pd.isna(error) else f" ± {brief(error)}")


def _given(value: float | None) -> float | None:
    return None if value is None or pd.isna(value) else float(value)
