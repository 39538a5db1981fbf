# The look of the ggplot2 figures: that of src/bnn_atlas/figures/style.py.

column_width <- 3.25
text_width <- 6.75
grey_text <- "#5F5F5F"
okabe_ito <- c(
  black = "#000000", orange = "#E69F00", sky = "#56B4E9", green = "#009E73",
  blue = "#0072B2", vermilion = "#D55E00", purple = "#CC79A7"
)

# The linewidth of ggplot2 for a line that is this many points wide.
points_wide <- function(points) points / (ggplot2::.pt * 72 / 96)

# Text broken into lines of this width, in inches, at the size of subtitles.
wrapped <- function(text, inches) paste(strwrap(text, 17 * inches), collapse = "\n")

# Numbers of an axis with minus signs. The encoding of the PDF has them in the place of hyphens, and no others.
axis_numbers <- function(x) {
  text <- ifelse(is.na(x), NA_character_, format(x, trim = TRUE, justify = "left"))
  if (names(grDevices::dev.cur()) == "pdf") text else chartr("-", "\u2212", text)
}

theme_atlas <- function() {
  ggplot2::theme_classic(base_size = 7.5, base_family = "Atlas Sans") +
    ggplot2::theme(
      text = ggplot2::element_text(colour = "black"),
      axis.text = ggplot2::element_text(size = 7, colour = "black"),
      axis.line = ggplot2::element_line(linewidth = points_wide(0.6)),
      axis.ticks = ggplot2::element_line(linewidth = points_wide(0.6), colour = "black"),
      axis.ticks.length = grid::unit(2.5, "pt"),
      plot.title = ggplot2::element_text(size = 7.5, margin = ggplot2::margin(0, 0, 2, 0)),
      plot.subtitle = ggplot2::element_text(size = 7.5, margin = ggplot2::margin(0, 0, 4, 0)),
      legend.position = "bottom",
      legend.title = ggplot2::element_blank(),
      legend.text = ggplot2::element_text(size = 7),
      legend.key.width = grid::unit(18, "pt"),
      legend.key.height = grid::unit(9, "pt"),
      legend.margin = ggplot2::margin(0, 0, 0, 0),
      plot.caption = ggplot2::element_text(size = 5.5, colour = grey_text),
      plot.margin = ggplot2::margin(2, 6, 2, 3)
    )
}
