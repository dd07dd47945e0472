//! Guesses which name was meant, by the matching blocks of Ratcliff and Obershelp.

use crate::tables::MAX_SUGGESTION_CHARS;

const LEAST_SIMILARITY: f64 = 0.7;

/// Returns the known name that is most similar to `name`, of equals the last in the alphabet; None where none is.
pub(crate) fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let own: Vec<char> = name.chars().collect();
    if own.len() > MAX_SUGGESTION_CHARS {
        return None;
    }
    let similar = known.map(|other| (similarity(other, &own), other)).filter(|(score, _)| *score >= LEAST_SIMILARITY);
    similar.max_by(|one, two| one.partial_cmp(two).unwrap_or(std::cmp::Ordering::Equal)).map(|(_, other)| other)
}

fn similarity(other: &str, own: &[char]) -> f64 {
    let other: Vec<char> = other.chars().collect();
    let length = other.len() + own.len();
    if length == 0 {
        return 1.0;
    }
    2.0 * matching(&other, own) as f64 / length as f64
}

/// Returns how many characters are in the longest common block, and in those before and after it.
fn matching(one: &[char], two: &[char]) -> usize {
    let (mut best_one, mut best_two, mut best) = (0, 0, 0);
    // Length of the common block that ends at each place of `two` and the last place of `one`.
    let mut lengths = vec![0; two.len() + 1];
    for (i, character) in one.iter().enumerate() {
        let before = std::mem::replace(&mut lengths, vec![0; two.len() + 1]);
        for (j, _) in two.iter().enumerate().filter(|(_, other)| *other == character) {
            let length = before[j] + 1;
            lengths[j + 1] = length;
            if length > best {
                (best_one, best_two, best) = (i + 1 - length, j + 1 - length, length);
            }
        }
    }
    if best == 0 {
        return 0;
    }
    let (after_one, after_two) = (best_one + best, best_two + best);
    best + matching(&one[..best_one], &two[..best_two]) + matching(&one[after_one..], &two[after_two..])
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_most_similar_name_is_meant() {
        let known = || ["loss", "lr", "grad_norm", "tokens", "wall_us"].into_iter();
        assert_eq!(Some("loss"), nearest("los", known()));
        assert_eq!(Some("grad_norm"), nearest("gradnorm", known()));
        assert_eq!(None, nearest("mfu", known()));
        assert_eq!(None, nearest(&"loss".repeat(20), known()));
    }
}
