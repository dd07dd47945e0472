//! Numbers that look random and are the same in every run.

/// Returns how many of *whole* rounds to run: `make test` runs a twentieth, `make test-all` every round.
pub(crate) fn rounds(whole: usize) -> usize {
    if std::env::var("TOYSPEC_EXAMPLES").is_ok_and(|amount| amount == "quick") {
        whole / 20
    } else {
        whole
    }
}

/// A generator of 64-bit numbers.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 to `end`, excluded.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
