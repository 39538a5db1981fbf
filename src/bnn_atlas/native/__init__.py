"""The compiled gradient of narrow dense networks: its C++ sources and their build."""
