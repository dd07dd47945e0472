"""Many runs: finding them below a directory, and what each one comes to."""
