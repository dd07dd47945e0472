"""The fault runner: every writer meets failing calls, full disks, kills, torn files and other processes."""
