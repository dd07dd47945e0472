"""Where a ``TrainingLogger`` sends what it is given: one module for each place."""
