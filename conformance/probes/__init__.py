"""What implementations are asked about a case in each role, and what a right one answers."""
