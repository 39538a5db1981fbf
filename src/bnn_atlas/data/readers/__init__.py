"""Reading raw files of images, sequences and labels."""
