"""Trainings compared to the step: where two of them part, and what a run is expected to log."""
