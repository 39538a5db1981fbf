"""What a reader sees of judged studies: one view, written as lines on the console, as pages and as a site."""
