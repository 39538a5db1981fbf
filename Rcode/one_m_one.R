# Joint density of the two weights of a hidden unit: a row of panels per width, a column per prior.
#' @include draw.R

region_shares <- c(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

# Args:
#   draws: columns w1, w2, hidden (units M of the layer) and prior_sd (standard deviation of the prior).
#   remark: text below the title.
one_m_one <- function(draws, remark = "") {
  sds <- sort(unique(draws$prior_sd), decreasing = TRUE)
  widths <- sort(unique(draws$hidden))
  limits <- vapply(sds, function(sd) column_limit(draws[draws$prior_sd == sd, ]), 0)
  counts <- table(draws$hidden, draws$prior_sd)
  counts <- counts[counts > 0]
  plots <- list()
  grids <- list()
  for (units in widths) {
    for (j in seq_along(sds)) {
      panel <- draws[draws$hidden == units & draws$prior_sd == sds[j], ]
      below <- draws[draws$hidden > units & draws$prior_sd == sds[j], ]
      left <- draws[draws$hidden == units & draws$prior_sd > sds[j], ]
      if (nrow(panel) == 0) {
        plots[[length(plots) + 1]] <- patchwork::plot_spacer()
        next
      }
      grid <- region_grid(panel, limits[j])
      grids[[length(grids) + 1]] <- grid
      plots[[length(plots) + 1]] <- region_panel(grid, panel, limits[j],
        many = if (length(unique(counts)) > 1) nrow(panel), key = if (length(sds) < 2) 11 else 17,
        first = units == widths[1], lowest = nrow(below) == 0, leftmost = nrow(left) == 0
      )
    }
  }
  side <- min(1.6, (text_width - 0.55) / length(sds) - 0.32)
  width <- max(column_width, 0.55 + length(sds) * (side + 0.32))
  same <- if (length(unique(counts)) == 1) {
    sprintf("%s draws of (w1, w2) of one hidden unit in each panel", format(counts[[1]], big.mark = ","))
  } else {
    "Draws of (w1, w2) of one hidden unit"
  }
  said <- wrapped(paste(c(same, if (remark != "") remark), collapse = "; "), width - 0.55)
  lines <- length(strsplit(said, "\n")[[1]])
  plot <- patchwork::wrap_plots(plots, ncol = length(sds)) +
    patchwork::plot_layout(guides = "collect") +
    patchwork::plot_annotation(subtitle = said) &
    ggplot2::theme(legend.position = "bottom")
  data <- do.call(rbind, grids)
  data <- data[data$region <= max(region_shares), c("hidden", "prior_sd", "w1", "w2", "density", "region")]
  list(plot = plot, data = data, width = width, height = 1.3 + 0.12 * (lines - 1) + length(widths) * (side + 0.22))
}

# Half-width of the axes of a column: all but 0.2 per cent of the draws of each of its panels along either axis, and two
# bandwidths more.
column_limit <- function(column) {
  ends <- lapply(split(column, column$hidden, drop = TRUE), function(panel) {
    vapply(panel[c("w1", "w2")], function(x) unname(stats::quantile(abs(x), 0.998)) + 2 * bandwidth(x), 0)
  })
  max(unlist(ends))
}

# A grid with the density at each point and `region`, the share of the draws within the limits that lie in the smallest
# region that holds the point: 0 at the highest density. Gaussian kernels, at least as wide as the grid's step.
region_grid <- function(panel, limit, points = 96) {
  step <- 2 * limit / (points - 1)
  width <- vapply(panel[c("w1", "w2")], function(x) max(step, bandwidth(x)), 0)
  kernel <- MASS::kde2d(panel$w1, panel$w2, h = 4 * width, n = points, lims = limit * c(-1, 1, -1, 1))
  density <- as.vector(kernel$z)
  region <- numeric(length(density))
  downwards <- order(density, decreasing = TRUE)
  region[downwards] <- cumsum(density[downwards]) / sum(density)
  data.frame(
    hidden = panel$hidden[1], prior_sd = panel$prior_sd[1],
    expand.grid(w1 = signif(kernel$x, 5), w2 = signif(kernel$y, 5)),
    density = signif(density, 4), region = signif(region, 4)
  )
}

# The bandwidth of Sheather and Jones, which keeps two modes apart, times n^(1/30): in two dimensions the best bandwidth
# falls with n^(-1/6), not n^(-1/5). Silverman's where the draws are too few or too much alike.
bandwidth <- function(x) {
  tryCatch(stats::bw.SJ(x), error = function(e) stats::bw.nrd0(x)) * length(x)^(1 / 30)
}

# One panel. `many` is the number of draws, given where panels differ in it; `key` is the width of a colour in the legend
# (points).
region_panel <- function(grid, panel, limit, many, key, first, lowest, leftmost) {
  outside <- sum(pmax(abs(panel$w1), abs(panel$w2)) > limit)
  said <- c(
    if (!is.null(many)) sprintf("%s draws", format(many, big.mark = ",")),
    if (outside > 0) sprintf("%s outside", format(outside, big.mark = ","))
  )
  within <- sprintf("%.0f%%", 100 * mean(panel$w1^2 + panel$w2^2 <= stats::qchisq(0.95, 2) * panel$prior_sd[1]^2))
  colours <- viridisLite::viridis(length(region_shares) - 1, direction = -1, option = "C")
  names <- sprintf("%g", 100 * region_shares[-1])
  angle <- seq(0, 2 * pi, length.out = 181)
  radius <- panel$prior_sd[1] * sqrt(stats::qchisq(0.95, 2))
  circle <- data.frame(w1 = radius * cos(angle), w2 = radius * sin(angle))
  plot <- ggplot2::ggplot(grid, ggplot2::aes(w1, w2)) +
    ggplot2::geom_contour_filled(
      ggplot2::aes(z = region), breaks = region_shares, show.legend = c(fill = TRUE, linetype = FALSE)
    ) +
    # White under black shows on every colour.
    ggplot2::geom_path(data = circle, colour = "white", linewidth = points_wide(1.1), show.legend = FALSE) +
    ggplot2::geom_path(
      data = circle, ggplot2::aes(linetype = "95% of the prior"), linewidth = points_wide(0.7),
      show.legend = c(fill = FALSE, linetype = TRUE)
    ) +
    ggplot2::annotate(
      "text", x = 0.97 * limit, y = -0.97 * limit, label = paste(said, collapse = ", "), hjust = 1, vjust = 0,
      size = 5.5 / ggplot2::.pt, colour = grey_text, family = "Atlas Sans"
    ) +
    ggplot2::annotate(
      "text", x = -0.97 * limit, y = 0.97 * limit, label = within, hjust = 0, vjust = 1, size = 6 / ggplot2::.pt,
      family = "Atlas Sans"
    ) +
    ggplot2::scale_fill_manual("draws in the region, %", values = colours, labels = names, drop = FALSE) +
    ggplot2::scale_linetype_manual(NULL, values = "22") +
    ggplot2::guides(
      fill = ggplot2::guide_legend(
        order = 1, nrow = 1, title.position = "top", label.position = "bottom", keywidth = grid::unit(key, "pt"),
        override.aes = list(linetype = 0)
      ),
      linetype = ggplot2::guide_legend(order = 2, label.position = "bottom")
    ) +
    ggplot2::coord_cartesian(limit * c(-1, 1), limit * c(-1, 1), expand = FALSE) +
    ggplot2::scale_x_continuous(breaks = scales::breaks_extended(4), labels = axis_numbers) +
    ggplot2::scale_y_continuous(breaks = scales::breaks_extended(4), labels = axis_numbers) +
    ggplot2::labs(
      title = if (first) sprintf("Prior sd %.3g", panel$prior_sd[1]), x = if (lowest) "incoming weight w1",
      y = if (leftmost) sprintf("M = %d\noutgoing weight w2", panel$hidden[1])
    ) +
    theme_atlas() +
    ggplot2::theme(
      aspect.ratio = 1, legend.title = ggplot2::element_text(size = 7), legend.spacing.x = grid::unit(0, "pt")
    )
  if (lowest) plot else plot + ggplot2::theme(axis.text.x = ggplot2::element_blank())
}
