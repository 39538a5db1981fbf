"""BNN Atlas: kernels and tools behind the pipeline that draws four studies of Bayesian-neural-network posteriors."""
