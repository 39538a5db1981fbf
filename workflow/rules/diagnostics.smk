# One page per run and split on which a person sees whether to trust it; `diagnostics` makes all of them.


rule diagnostics:
    input:
        [path for study in ATLAS.studies for path in diagnostics_of(study)],


rule diagnostics_page:
    input:
        **{
            field: f"{RESULTS}/{{study}}/{{run}}/split{{split}}/metrics/{file}.parquet"
            for field, file in [
                ("table", "metrics"),
                *((name, name) for name in ("rates", "parameters", "functions", "chains", "samplers", "curves")),
            ]
        },
        code=code_of("diagnostics.page"),
    output:
        multiext(f"{RESULTS}/figures/{{study}}/diagnostics/{{run}}-split{{split}}", ".pdf", ".csv"),
        report(
            f"{RESULTS}/figures/{{study}}/diagnostics/{{run}}-split{{split}}.png",
            caption="../report/diagnostics.rst",
            category="{study}",
            subcategory="diagnostics",
            labels={"run": "{run}", "split": "{split}"},
        ),
    log:
        f"{RESULTS}/logs/figures/{{study}}/diagnostics/{{run}}-split{{split}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/{{study}}/diagnostics/{{run}}-split{{split}}.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings=page_settings,
    script:
        "../scripts/diagnostics.py"


# Apart from the table of scores: what wall time enters differs from one rerun to the next.
rule rates_table:
    input:
        lambda w: per_split(ATLAS.studies[w.study].runs.values(), "metrics/rates.parquet"),
    output:
        f"{RESULTS}/tables/{{study}}-rates.parquet",
    log:
        f"{RESULTS}/logs/table/{{study}}-rates.log",
    benchmark:
        f"{RESULTS}/benchmarks/table/{{study}}-rates.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    script:
        "../scripts/table.py"
