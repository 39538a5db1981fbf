"""Results that the pages in docs/results keep, and the time and machine of the jobs that made them."""
