"""Rules over a run while it trains: what they say, and what happens then."""
