"""The runner: blocks of chains of any method, in segments that resume bit for bit."""
