"""The rules that judge histories of producers and consumers."""
