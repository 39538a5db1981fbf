"""The compiled gradient of narrow dense networks: its C++ sources, their build, and the call from JAX."""
