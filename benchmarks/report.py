"""Tables of the measurements in results/*.csv; `python benchmarks/report.py` puts them into README.md."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
NAMES = {
    "bde": "sklearn-contrib-bde",
    "atlas": "bnn_atlas, one process",
    "snakemake": "bnn_atlas, the pipeline (`snakemake`)",
}


def mile_vs_bde(table: pd.DataFrame) -> str:
    """Medians over the rounds, and how many times as fast as bde with the same kind of cache in the same round."""
    seconds = table.pivot_table(index="seed", columns=["cache", "side"], values="seconds")
    lines = []
    for cache, side in table[["cache", "side"]].drop_duplicates().itertuples(index=False):
        rows = table[(table.cache == cache) & (table.side == side)]
        theirs = seconds.get((cache, "bde"))
        ratio = "" if theirs is None else f"{(theirs / seconds[cache, side]).median():.2f}"
        lines.append(
            (
                NAMES[side],
                cache,
                f"{rows.seconds.median():.1f} ({rows.seconds.min():.1f} to {rows.seconds.max():.1f})",
                ratio,
                *(f"{rows[score].mean():.4f}" for score in ("rmse", "nll", "lppd")),
                f"{rows.matmul_gflops.median():.0f}",
                f"{rows.share.median():.0%}",
            )
        )
    head = ("", "compilation cache", "seconds", "times as fast", "RMSE", "NLL", "LPPD", "products, GFLOP/s", "share")
    first = table.iloc[0]
    work = f"{table.seed.nunique()} rounds; {first.epochs} epochs, {first.warmup} tuning steps"
    return f"{machine(table)}; {work}.\n\n{markdown(head, lines)}"


def gradients(table: pd.DataFrame) -> str:
    """Medians over the rounds."""
    names = {"bare": "gradients alone", "sampler": "MCLMC inside the runner"}
    lines = []
    for loop in table.loop.unique():
        rows = table[table.loop == loop]
        rate = rows.gradients_per_second
        lines.append(
            (
                names[loop],
                f"{rate.median():,.0f} ({rate.min():,.0f} to {rate.max():,.0f})",
                f"{rows.gflops.median():.0f}",
                f"{rows.matmul_gflops.median():.0f}",
                f"{rows.share.median():.0%}",
            )
        )
    head = ("", "chain-gradients/s", "GFLOP/s", "products, GFLOP/s", "share")
    return f"{machine(table)}; {table.repeat.nunique()} rounds.\n\n{markdown(head, lines)}"


def machine(table: pd.DataFrame) -> str:
    """Processor, cores and versions."""
    first = table.iloc[0]
    return f"{first.processor}, {first.cores} cores; {'; '.join(table.versions.unique())}"


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def main() -> None:
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    for name, table in (("mile_vs_bde", mile_vs_bde), ("gradients", gradients)):
        path = HERE / "results" / f"{name}.csv"
        if path.exists():
            begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            before, _, rest = text.partition(begin)
            text = f"{before}{begin}\n{table(pd.read_csv(path))}\n\n{end}{rest.partition(end)[2]}"
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
