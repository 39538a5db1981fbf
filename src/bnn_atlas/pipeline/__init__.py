"""What the Snakemake rules need (paths, input functions, resources) and do (`steps`), and `hooks` into Snakemake."""
