"""Tables of the measurements in results/*.csv; `python benchmarks/report.py` puts them into README.md."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
NAMES = {
    "bde": "sklearn-contrib-bde",
    "estimator": "bnn_atlas, `AtlasRegressor`",
    "atlas": "bnn_atlas, one process",
    "snakemake": "bnn_atlas, the pipeline (`snakemake`)",
}
PACKAGES = {"atlas": "bnn_atlas", "blackjax": "BlackJAX", "numpyro": "NumPyro"}
DOCUMENTED = ("vmap", "vectorized")
"""Arrangements of the chains that the peers' documentation shows first."""
OURS = "chains"
TIMES = ("seconds", "cpu_seconds")


def mile_vs_bde(table: pd.DataFrame) -> str:
    """Medians over the rounds, and how many times as fast as bde with the same kind of cache in the same round.

    The ratio of seconds of cores is the one to read if other work ran on the machine; what is not known stays empty.
    """
    times = {name: table.pivot_table(index="seed", columns=["cache", "side"], values=name) for name in TIMES}
    lines = []
    for cache, side in table[["cache", "side"]].drop_duplicates().itertuples(index=False):
        rows = table[(table.cache == cache) & (table.side == side)]
        took = []
        for name, seconds in times.items():
            known, theirs = rows[name].notna().all(), seconds.get((cache, "bde"))
            took.append(
                f"{rows[name].median():.1f} ({rows[name].min():.1f} to {rows[name].max():.1f})" if known else ""
            )
            took.append(f"{(theirs / seconds[cache, side]).median():.2f}" if known and theirs is not None else "")
        lines.append(
            (
                NAMES[side],
                cache,
                *took,
                *(f"{rows[score].mean():.4f}" for score in ("rmse", "nll", "lppd")),
                f"{rows.matmul_gflops.median():.0f}",
                f"{rows.share.median():.0%}" if rows.share.notna().all() else "",
            )
        )
    head = (
        *("", "compilation cache", "seconds", "times as fast", "seconds of cores", "times as little"),
        *("RMSE", "NLL", "LPPD", "products, GFLOP/s", "share"),
    )
    first = table.iloc[0]
    work = f"{table.seed.nunique()} rounds; {first.epochs} epochs, {first.warmup} tuning steps"
    return f"{machine(table)}; {work}.\n\n{markdown(head, lines)}"


def chains(table: pd.DataFrame) -> str:
    """Three tables: our samplers against all others, all contestants on the 16-wide network, the best on the others."""
    works = [rows for _, rows in table.groupby(["width", "depth", "rows", "chains"], sort=False)]
    parts = [markdown(SUMMARY_HEAD, (line for rows in works for line in summary(rows)))]
    detailed = [rows for rows in works if rows.groupby(["package", "arrangement"]).ngroups > 6]
    if detailed:
        head = ("", "sampler", "chains arranged by", "chain-gradients/s", "GFLOP/s", "share", "our relative speed")
        parts.append("All contestants:\n\n" + markdown(head, (line for rows in detailed for line in contestants(rows))))
    return f"{machine(table)}; {table.repeat.nunique()} rounds.\n\n" + "\n\n".join(parts)


SUMMARY_HEAD = (
    "network, rows, chains",
    "sampler",
    "ours, chain-gradients/s",
    "share",
    "of our gradients alone",
    "times as fast as documented",
    "times as fast as the best",
    "the best",
)


def summary(rows: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """For each sampler of ours in one work, the peers' rates in the same rounds."""
    rates = rows.pivot_table(
        index="repeat", columns=["method", "package", "arrangement"], values="gradients_per_second"
    )
    for method in ("hmc", "mclmc"):
        if (method, "atlas", OURS) not in rates:
            continue
        ours = rates[method, "atlas", OURS]
        peers = rates[method].drop(columns="atlas", level=0)
        alone = rates.get(("gradient", "atlas", OURS))
        documented = [name for name in peers if name[1] in DOCUMENTED]
        best = peers.median().idxmax() if len(peers.columns) else None
        yield (
            work_label(rows),
            method.upper(),
            spread(ours),
            f"{rows[(rows.method == method) & (rows.arrangement == OURS)].share.median():.0%}",
            "" if alone is None else f"{(ours / alone).median():.2f}",
            f"{min((ours / peers[name]).median() for name in documented):.2f}" if documented else "",
            "" if best is None else f"{(ours / peers[best]).median():.2f}",
            "" if best is None else f"{PACKAGES[best[0]]}, {best[1]}",
        )


def contestants(rows: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """The median rates of all contestants in one work."""
    rates = rows.pivot_table(
        index="repeat", columns=["method", "package", "arrangement"], values="gradients_per_second"
    )
    for method, package, arrangement in rows[["method", "package", "arrangement"]].drop_duplicates().values:
        selected = rows[(rows.method == method) & (rows.package == package) & (rows.arrangement == arrangement)]
        ours = rates.get((method, "atlas", OURS))
        yield (
            f"{selected.chains.iloc[0]} chains" if selected.chains.iloc[0] > 1 else "1 chain",
            f"{PACKAGES[package]}, {'gradients alone' if method == 'gradient' else method.upper()}",
            {OURS: "one after another", "shards": "rows shared by the cores"}.get(arrangement, arrangement),
            spread(selected.gradients_per_second),
            f"{selected.gflops.median():.0f}",
            f"{selected.share.median():.0%}",
            "" if ours is None else f"{(ours / rates[method, package, arrangement]).median():.2f}",
        )


def work_label(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return f"{first.width}x{first.depth}, {first.rows:,}, {first.chains}"


def sgmcmc_step(table: pd.DataFrame) -> str:
    """Medians over the rounds; the ratio is to optax in the same round."""
    lines = []
    for (network, _), rows in table.groupby(["network", "parameters"], sort=False):
        times = rows.pivot_table(index="repeat", columns="loop", values="microseconds")
        first = rows.iloc[0]
        for loop in rows.loop.unique():
            base = BASES.get(loop)
            ratio = "" if base is None else f"{(times[loop] / times[base]).median():.2f} x {base}"
            work = f"{network}, {first.parameters:,} parameters, batches of {first.batch}"
            lines.append((work, loop, spread(times[loop]), ratio))
    head = ("network", "", "microseconds per gradient", "")
    return f"{machine(table)}; {table.repeat.nunique()} rounds.\n\n{markdown(head, lines)}"


BASES = {
    "smile": "sgld",
    "sgld": "sgd",
    "psgld": "sgd",
    "sghmc": "sgd momentum",
    "sghmc_clr_prec": "sgd momentum",
    "baoab": "sgld, all rows",
}
"""What each stochastic-gradient sampler is compared with."""


def implicit(table: pd.DataFrame) -> str:
    """Medians over the rounds, and the ratio to the published form in the same round."""
    lines = []
    for work, rows in table.groupby("work", sort=False):
        times = rows.pivot_table(index="repeat", columns="form", values="milliseconds")
        published = times[next(form for form in times if "published" in form)]
        for form in rows.form.unique():
            first = rows[rows.form == form].iloc[0]
            ratio = f"{(times[form] / published).median():.2f} x"
            memory = (number(first.temporary_mb), number(first.jacobian_mb))
            name = f"{work}, D = {first.weights:,}" + f", d = {first.noise:,}" * bool(first.noise)
            lines.append((name, form, spread(times[form]), ratio, *memory))
    head = ("generator", "form", "milliseconds", "published form", "memory, MB", "a Jacobian, MB")
    return f"{machine(table)}; {table.repeat.nunique()} rounds.\n\n{markdown(head, lines)}"


def kernel(table: pd.DataFrame) -> str:
    """Medians over the rounds, and how many times as fast as XLA on all rows at once in the same round."""
    lines, ways = [], [way for way in WAYS if way in set(table.way)]
    for work, rows in table.groupby("work", sort=False):
        times = rows.pivot_table(index="repeat", columns="way", values="microseconds")
        reached = rows.flop.iloc[0] / 1e3 / times["compiled"] / rows.groupby("repeat").matmul_gflops.first()
        cells = [f"{number(times['whole'].median())}"]
        for way in ways:
            cells.append(f"{number(times[way].median())} ({(times['whole'] / times[way]).median():.2f} x)")
        lines.append((str(work), *cells, f"{reached.median():.0%}"))
    head = ("", "XLA, all rows at once", *(WAYS[way] for way in ways), "share of products")
    return f"{machine(table)}; {table.repeat.nunique()} rounds; microseconds per gradient.\n\n{markdown(head, lines)}"


WAYS = {"pieces": "XLA, rows in cache", "flax": "XLA, in Flax", "compiled": "compiled"}
"""Ways of computing a gradient besides `whole`, and their names."""


def compile_time(table: pd.DataFrame) -> str:
    """Medians over the rounds."""
    lines = []
    for key, rows in table.groupby(["network", "method", "job"], sort=False):
        network, method, job = (str(part) for part in key)
        lines.append(
            (
                f"{network}, {method.upper()}",
                job,
                f"{rows.seconds.median():.2f} ({rows.seconds.min():.2f} to {rows.seconds.max():.2f})",
                f"{rows.programs.median():.0f}",
                f"{rows.compiled.median():.0f}",
                f"{rows.compiling_seconds.median():.2f}",
                f"{rows.longest_compiled.median():.2f}",
            )
        )
    head = ("", "job", "seconds", "programs", "compiled", "seconds of these", "of the longest")
    return f"{machine(table)}; {table.repeat.nunique()} rounds.\n\n{markdown(head, lines)}"


def trace_writing(table: pd.DataFrame) -> str:
    """What the writer adds, as the median over the rounds of the ratio within a round."""
    lines = []
    for thinning, rows in table.groupby("thinning", sort=False):
        seconds = rows.pivot_table(index="repeat", columns="trace", values="seconds")
        written = rows[rows.trace == "written"]
        lines.append(
            (
                "every draw" if thinning == 1 else f"every {thinning}th draw",
                f"{seconds['written'].median():.2f}",
                f"{seconds['not written'].median():.2f}",
                f"{(seconds['written'] / seconds['not written'] - 1).median():+.1%}",
                f"{written.megabytes_per_second.median():.1f}",
            )
        )
    head = ("kept", "seconds", "without the writer", "it costs", "trace, MB/s")
    return f"{machine(table)}; {table.repeat.nunique()} rounds.\n\n{markdown(head, lines)}"


def trace_reading(table: pd.DataFrame) -> str:
    """Rates in the same rounds."""
    first = table.iloc[0]
    lines = []
    for cache, rows in table.groupby("cache", sort=False):
        rates = rows.pivot_table(index="repeat", columns="read", values="megabytes_per_second")
        names = {"cold": "after the system was asked to forget it", "warm": "from the page cache"}
        ratio = f"{(rates['layer'] / rates['plain']).median():.2f}"
        lines.append((names[str(cache)], spread(rates["layer"]), spread(rates["plain"]), ratio))
    head = ("", "the layer, MB/s", "plain reads, MB/s", "ratio")
    work = (
        f"{first.chains:,} chains x {first.draws:,} draws x {first.parameters} parameters, of which the layer has "
        f"{first.layer_parameters}; written to disk at {first.written_megabytes_per_second:.0f} MB/s; memory rose by "
        f"{first.memory_megabytes:.0f} MB while reading"
    )
    return f"{machine(table)}; {table.repeat.nunique()} rounds; {work}.\n\n{markdown(head, lines)}"


def memory(table: pd.DataFrame) -> str:
    """One line per gradient."""
    lines = [
        (
            "" if pd.isna(row.budget_mb) else f"{row.budget_mb:,.0f}",
            f"{row.micro_batches}",
            f"{row.temporary_mb:,.1f}",
            f"{row.measured_mb:,.1f}",
            f"{row.seconds:.2f}",
        )
        for row in table.itertuples()
    ]
    head = ("budget, MB", "micro-batches", "temporary by the compiler, MB", "measured, MB", "seconds")
    first = table.iloc[0]
    work = f"{first.rows:,} rows, which take {first.data_mb:.0f} MB themselves"
    return f"{machine(table)}; {work}.\n\n{markdown(head, lines)}"


def alignment(table: pd.DataFrame) -> str:
    """Draws per second of one core, median and spread over the rounds."""
    lines = [
        (*(str(part) for part in work), spread(rows.per_second))
        for work, rows in table.groupby(["work", "criterion", "draws"], sort=False)
    ]
    head = ("network", "matched by", "draws and reference are", "draws per second of one core")
    return f"{machine(table)}; {table.repeat.nunique()} rounds, CPU time.\n\n{markdown(head, lines)}"


def alignment_methods(table: pd.DataFrame) -> str:
    """Means over the pairs of networks, with standard errors."""

    def mean(values: pd.Series) -> str:
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        return f"{values.mean():.3f} ± {error:.3f}"

    lines = [
        (
            str(method),
            mean(rows.objective),
            mean(rows.barrier),
            mean(rows.barrier_repaired),
            number(rows.seconds.mean()),
        )
        for method, rows in table.groupby("method", sort=False)
    ]
    head = ("method", "cosine of the weights", "barrier", "barrier with REPAIR", "seconds for a pair")
    pairs = table.groupby("method").size().max()
    return f"{machine(table)}; means over {pairs} pairs with standard errors.\n\n{markdown(head, lines)}"


def gpu(values: pd.DataFrame, rates: pd.DataFrame, run: pd.DataFrame, networks: pd.DataFrame) -> str:
    """Four tables: rates, the estimate of the run, gradients of the large networks, differences from a CPU."""
    lines = []
    for key, rows in rates.groupby(["chains", "loop"], sort=False):
        count, loop = key
        lines.append(
            (
                f"{count:,}",
                str(loop),
                spread(rows.gradients_per_second),
                f"{rows.gflops.median():,.0f}",
                f"{rows.matmul_gflops.median():,.0f}",
                f"{rows.share.median():.1%}",
            )
        )
    head = ("chains", "", "chain-gradients/s", "GFLOP/s", "products, GFLOP/s", "share")
    first = rates.iloc[0]
    total = run.seconds.sum()
    stretches = [(row.stretch, f"{row.part_seconds:.2f}", f"{row.seconds:,.0f}") for row in run.itertuples()]
    stretches.append(("together", f"{run.part_seconds.sum():.2f}", f"{total:,.0f} ({total / 60:.0f} minutes)"))
    gradients = [
        (str(name), f"{rows.rows.iloc[0]:,}", str(dtype), str(rows.micro_batches.iloc[0]), spread(rows.seconds))
        for (name, dtype), rows in networks.groupby(["network", "dtype"], sort=False)
    ]
    about = f"{first.device}, products at precision {first.precision}; {first.versions}"
    return "\n\n".join(
        (
            f"{about}; {rates.repeat.nunique()} rounds.",
            markdown(head, lines),
            f"{run.chains.iloc[0]:,} chains, estimated from a part:",
            markdown(("", "seconds of the part", "of the whole"), stretches),
            "Full-data gradients of the networks with which HMC was run (Izmailov et al. 2021), one chain:",
            markdown(("", "rows", "precision", "micro-batches", "seconds"), gradients),
            "Largest differences from a CPU, relative to the largest value:",
            markdown(("", "difference"), [(row.value, f"{row.difference:.1e}") for row in values.itertuples()]),
        )
    )


def spread(values: pd.Series) -> str:
    """Median, least and most; four digits."""
    return "{} ({} to {})".format(*(number(value) for value in (values.median(), values.min(), values.max())))


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def machine(table: pd.DataFrame) -> str:
    """Processor, cores and versions."""
    first = table.iloc[0]
    cores = "1 core" if first.cores == 1 else f"{first.cores} cores"
    return f"{first.processor}, {cores}; {'; '.join(table.versions.unique())}"


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


TABLES: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "mile_vs_bde": (mile_vs_bde, ("mile_vs_bde",)),
    "chains": (chains, ("chains",)),
    "sgmcmc_step": (sgmcmc_step, ("sgmcmc_step",)),
    "implicit": (implicit, ("implicit",)),
    "kernel": (kernel, ("kernel",)),
    "compile": (compile_time, ("compile",)),
    "trace_writing": (trace_writing, ("trace_writing",)),
    "trace_reading": (trace_reading, ("trace_reading",)),
    "memory": (memory, ("memory",)),
    "alignment": (alignment, ("alignment",)),
    "alignment_methods": (alignment_methods, ("alignment_methods",)),
    "gpu": (gpu, ("gpu_values", "gpu_rates", "gpu_run", "gpu_networks")),
}
"""Marks in README.md: what makes a table, and the files in results/ that it is made from."""


def fill(text: str, results: Path) -> str:
    """The text with every table that has been measured between its marks."""
    for name, (table, sources) in TABLES.items():
        paths = [results / f"{source}.csv" for source in sources]
        if all(path.exists() for path in paths):
            begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            before, mark, rest = text.partition(begin)
            if not mark:
                raise ValueError(f"README.md has no place for the table '{name}': add the line {begin.strip()}")
            text = f"{before}{begin}\n{table(*map(pd.read_csv, paths))}\n\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    readme = HERE / "README.md"
    readme.write_text(fill(readme.read_text(encoding="utf-8"), HERE / "results"), encoding="utf-8")


if __name__ == "__main__":
    main()
