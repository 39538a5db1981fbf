"""What the Snakemake rules ask of the configuration: paths, input functions and resources."""
