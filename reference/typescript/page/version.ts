/** The version of toyspec that a report names; a test compares it with that of the Python package. */
export const VERSION = "0.1.0";
