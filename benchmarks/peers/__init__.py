"""One file per library: how it decides and learns on the shared problem. Run as `python -m peers.NAME`."""
