# Kernel density estimates of the draws of several chains.

# One bandwidth for all chains, the median of their own by Silverman's rule. With it the density of all draws is the
# mean of the chains' densities where they have equally many draws, and modes of different chains stay apart.
common_bandwidth <- function(values, chain) {
  stats::median(vapply(split(values, chain, drop = TRUE), stats::bw.nrd0, 0))
}

# The density at the equally spaced points x.
density_at <- function(values, bandwidth, x) {
  density <- stats::density(values, bw = bandwidth, from = x[1], to = x[length(x)], n = length(x))$y
  # The transform inside density() leaves noise of about 1e-17 where there is nothing.
  density[density < 1e-9 * max(density)] <- 0
  signif(density, 6)
}
