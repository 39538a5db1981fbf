# Figures of the study sampling_perspective; the name of a rule is its target.


rule cumulative_lppd:
    input:
        tables=lambda w: per_split(figure_runs("sampling_perspective", "cumulative_lppd"), "metrics/metrics.parquet"),
        code=expand("src/bnn_atlas/figures/{file}.py", file=["style", "sampling_perspective/lppd"]),
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
        settings=lambda w: figure_settings("sampling_perspective", "cumulative_lppd"),
        labels=lambda w: figure_labels("sampling_perspective", "cumulative_lppd"),
        classification=lambda w: figure_classification("sampling_perspective", "cumulative_lppd"),
    script:
        "../scripts/figures/cumulative_lppd.py"


rule fireball:
    input:
        grid=lambda w: per_split(figure_runs("sampling_perspective", "fireball"), "grid/fireball.npz")[0],
        code=expand(
            "src/bnn_atlas/figures/{file}.py", file=["style", "density", "labels", "sampling_perspective/fireballs"]
        ),
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
        settings=lambda w: figure_settings("sampling_perspective", "fireball"),
    script:
        "../scripts/figures/fireball.py"


rule marginal_densities:
    input:
        draws=lambda w: per_split(
            figure_runs("sampling_perspective", "marginal_densities"), "subset/marginal_densities.parquet"
        )[0],
        code=[
            "src/bnn_atlas/figures/sampling_perspective/densities.py",
            *expand("Rcode/{file}.R", file=["theme", "draw", "marginal_densities"]),
        ],
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
        settings=lambda w: figure_settings("sampling_perspective", "marginal_densities"),
        prior_sd=lambda w: figure_runs("sampling_perspective", "marginal_densities")[0].config.prior_sd,
    script:
        "../scripts/figures/marginal_densities.py"
