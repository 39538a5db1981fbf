"""Generators: networks that turn standard normal noise into the weights of a network."""
