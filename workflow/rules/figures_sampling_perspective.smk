# Figures of the study sampling_perspective; the name of a rule is its target.

R_FIGURES = {"marginal_densities"}


rule cumulative_lppd:
    input:
        table=f"{RESULTS}/tables/sampling_perspective.parquet",
    output:
        multiext(f"{RESULTS}/figures/sampling_perspective/cumulative_lppd", ".pdf", ".csv"),
        report(
            f"{RESULTS}/figures/sampling_perspective/cumulative_lppd.png",
            caption="../report/cumulative_lppd.rst",
            category="sampling_perspective",
        ),
    log:
        f"{RESULTS}/logs/figures/sampling_perspective/cumulative_lppd.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/sampling_perspective/cumulative_lppd.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings=figure_settings("sampling_perspective", "cumulative_lppd"),
        runs=figure_named_runs("sampling_perspective", "cumulative_lppd"),
        labels=figure_labels("sampling_perspective", "cumulative_lppd"),
    script:
        "../scripts/figures/cumulative_lppd.py"


rule fireball:
    input:
        grid=per_split(figure_runs("sampling_perspective", "fireball")[:1], "grid/fireball.npz")[0],
    output:
        multiext(f"{RESULTS}/figures/sampling_perspective/fireball", ".pdf", ".csv"),
        report(
            f"{RESULTS}/figures/sampling_perspective/fireball.png",
            caption="../report/fireball.rst",
            category="sampling_perspective",
        ),
    log:
        f"{RESULTS}/logs/figures/sampling_perspective/fireball.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/sampling_perspective/fireball.tsv"
    conda:
        "../../envs/python.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        settings=figure_settings("sampling_perspective", "fireball"),
    script:
        "../scripts/figures/fireball.py"


rule marginal_densities:
    input:
        draws=per_split(
            figure_runs("sampling_perspective", "marginal_densities")[:1],
            "subset/marginal_densities.parquet",
        )[0],
        code=expand("Rcode/{file}.R", file=["theme", "draw", "marginal_densities"]),
    output:
        multiext(
            f"{RESULTS}/figures/sampling_perspective/marginal_densities",
            ".pdf",
            ".csv",
        ),
        report(
            f"{RESULTS}/figures/sampling_perspective/marginal_densities.png",
            caption="../report/marginal_densities.rst",
            category="sampling_perspective",
        ),
    log:
        f"{RESULTS}/logs/figures/sampling_perspective/marginal_densities.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures/sampling_perspective/marginal_densities.tsv"
    conda:
        "../../envs/r.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        settings=figure_settings("sampling_perspective", "marginal_densities"),
        prior_sd=figure_runs("sampling_perspective", "marginal_densities")[0].config.prior_sd,
    script:
        "../scripts/figures/marginal_densities.py"
