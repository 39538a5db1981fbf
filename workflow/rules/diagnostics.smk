# One page per run and split that shows a reader whether to trust it; `diagnostics` makes all of them.
from bnn_atlas.pipeline.figures import COMPUTING, code


rule diagnostics:
    """Make a page for every run and split that shows whether to trust it."""
    input:
        [path for study in ATLAS.studies for path in FIGURES.pages(study)],
    message:
        "The diagnostics pages are made"


rule diagnostics_page:
    """Draw the page of one run and split."""
    input:
        **{name: f"{RUN}/metrics/{file}.parquet" for name, file in METRIC_FILES.items()},
    output:
        outputs=[
            *multiext(f"{RESULTS}/figures/{{study}}/diagnostics/{{run}}-split{{split}}", ".pdf", ".csv"),
            report(
                f"{RESULTS}/figures/{{study}}/diagnostics/{{run}}-split{{split}}.png",
                caption="../report/diagnostics.rst",
                category="{study}",
                subcategory="diagnostics",
                labels={"run": "{run}", "split": "{split}"},
            ),
        ],
    log:
        PATHS.log("figures/{study}/diagnostics/{run}-split{split}"),
    benchmark:
        PATHS.benchmark("figures/{study}/diagnostics/{run}-split{split}")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        *code("bnn_atlas.figures.diagnostics.page", without=COMPUTING),
        # New settings change the run's tables, and so its page is drawn again.
        **told(settings=lambda w: FIGURES.page(w.study, w.run, int(w.split))),
    message:
        "Drawing the diagnostics of {wildcards.run} (split {wildcards.split})"
    script:
        "../scripts/step.py"


# Not in the table of scores, since numbers that depend on wall time differ from one rerun to the next.
rule rates_table:
    """Collect the time that the runs of a study took, and their effective draws per second."""
    input:
        tables=lambda w: PATHS.per_split(ATLAS.studies[w.study].runs.values(), "metrics/rates.parquet"),
    output:
        destination=f"{RESULTS}/tables/{{study}}-rates.parquet",
    log:
        PATHS.log("table/{study}-rates"),
    benchmark:
        PATHS.benchmark("table/{study}-rates")
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    message:
        "Collecting the rates of {wildcards.study}"
    script:
        "../scripts/step.py"
