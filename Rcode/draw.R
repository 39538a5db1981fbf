# How Python has a figure drawn: src/bnn_atlas/figures/ggplot.py calls draw_figure().
#
# A figure function takes a data.frame and settings and returns list(plot, data, width, height): what to draw, the
# numbers that are drawn, and the size in inches. It draws nothing itself.
#' @include theme.R

draw_figure <- function(figure, data, settings, png, pdf, title, note, head, fonts) {
  # Measuring text opens a device; this one writes no Rplots.pdf.
  grDevices::pdf(NULL)
  on.exit(while (grDevices::dev.cur() > 1) grDevices::dev.off())
  warnings <- character()
  result <- withCallingHandlers(
    tryCatch({
      use_fonts(fonts)
      made <- do.call(figure, c(list(data), settings), quote = TRUE)
      lines <- strwrap(head, floor(made$width / 0.046))
      height <- made$height + 0.1 * length(lines)
      plot <- with_note(made$plot, note, paste(lines, collapse = "\n"))
      ragg::agg_png(png, made$width, height, units = "in", res = 300, background = "white")
      print(plot)
      grDevices::dev.off()
      grDevices::pdf(pdf, made$width, height, title = title, encoding = "ISOLatin1.enc", useDingbats = FALSE)
      print(plot)
      grDevices::dev.off()
      list(data = made$data)
    }, error = function(e) list(error = conditionMessage(e), call = deparse(conditionCall(e), nlines = 1L))),
    warning = function(w) {
      warnings <<- c(warnings, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  c(result, list(warnings = warnings))
}

# A small line at the bottom right that says what scale the figure was made at, and small lines above all else that say
# whom not to trust; the figure keeps its own subtitle.
with_note <- function(plot, note, head) {
  theme <- theme_atlas() +
    ggplot2::theme(plot.title = ggplot2::element_text(size = 6, colour = grey_text, hjust = 0))
  or_none <- function(text) if (text == "") ggplot2::waiver() else text
  annotation <- patchwork::plot_annotation(title = or_none(head), caption = or_none(note), theme = theme)
  plot + annotation
}

# Register the family "Atlas Sans": matplotlib's own font files for PNG, Helvetica (known to every reader) for PDF.
use_fonts <- function(fonts) {
  if (!"Atlas Sans" %in% systemfonts::registry_fonts()$family) {
    systemfonts::register_font("Atlas Sans", plain = fonts$plain, bold = fonts$bold, italic = fonts$italic)
  }
  if (!"Atlas Sans" %in% names(grDevices::pdfFonts())) {
    grDevices::pdfFonts("Atlas Sans" = grDevices::pdfFonts()$Helvetica)
  }
}
