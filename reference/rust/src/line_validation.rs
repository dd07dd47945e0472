//! Checks one line as bytes and as JSON, before anything looks at its meaning: see spec/encoding.md.

use crate::lines::is_blank;
use crate::messages;
use crate::scanner::Scanner;
use crate::tables::{Rule, MAX_FINDINGS_PER_RULE};
use crate::tape::{Entry, Kind, Node};

/// A line can repeat one long key in the pointers of all its problems; beyond this many characters they are counted only.
const POINTER_BUDGET: usize = 1 << 20;
/// Longer lines are looked at once only.
const LONG_LINE_BYTES: usize = 1 << 20;
/// How a record begins that was appended to half of another.
const RECORD_STARTS: [&str; 3] = ["{\"kind\":", "{\"type\":", "{\"step\":"];

/// One problem of the bytes or JSON layer in one line.
pub(crate) struct Problem {
    pub rule: Rule,
    /// Offset of the place in the line; the length of the line when it ends too early.
    pub at: usize,
    pub pointer: String,
    pub message: String,
}

impl Problem {
    /// Returns a problem of the whole line.
    pub fn whole(rule: Rule, at: usize, message: String) -> Problem {
        Problem { rule, at, pointer: String::new(), message }
    }
}

/// The problems of one line: at most `MAX_FINDINGS_PER_RULE` of each rule are listed, the others counted.
pub(crate) struct Problems {
    pub listed: Vec<Problem>,
    pub unlisted: Vec<(Rule, u64)>,
    seen: Vec<(Rule, usize)>,
    budget: usize,
}

impl Default for Problems {
    fn default() -> Self {
        Problems { listed: Vec::new(), unlisted: Vec::new(), seen: Vec::new(), budget: POINTER_BUDGET }
    }
}

impl Problems {
    /// Returns whether a problem of the rule is listed; one that is not is counted here.
    pub fn counts(&mut self, rule: Rule) -> bool {
        let listed = self.seen.iter().find(|(seen, _)| *seen == rule).map_or(0, |&(_, count)| count);
        if listed < MAX_FINDINGS_PER_RULE && (self.budget > 0 || listed == 0) {
            return true;
        }
        match self.unlisted.iter_mut().find(|(seen, _)| *seen == rule) {
            Some((_, count)) => *count += 1,
            None => self.unlisted.push((rule, 1)),
        }
        false
    }

    /// Lists a problem that `counts` has asked for.
    pub fn list(&mut self, problem: Problem) {
        self.budget = self.budget.saturating_sub(problem.pointer.chars().count());
        match self.seen.iter_mut().find(|(rule, _)| *rule == problem.rule) {
            Some((_, count)) => *count += 1,
            None => self.seen.push((problem.rule, 1)),
        }
        self.listed.push(problem);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Blank,
    Readable,
    Unreadable,
}

/// Checks lines one after the other; holds what the last one was made of.
pub(crate) struct LineValidator {
    pub problems: Problems,
    pub status: Status,
    entries: Vec<Entry>,
}

impl Default for LineValidator {
    fn default() -> Self {
        LineValidator { problems: Problems::default(), status: Status::Blank, entries: Vec::new() }
    }
}

impl LineValidator {
    /// Checks one line of any bytes, LF excluded. `first` says that it begins the stream. A text with LF in it, such
    /// as a file that is one JSON object, is checked the same way: LF is white space.
    pub fn validate(&mut self, text: &[u8], first: bool) -> Status {
        if !self.problems.listed.is_empty() {
            self.problems = Problems::default();
        }
        self.status = Status::Unreadable;
        if is_blank(text) {
            self.status = Status::Blank;
        } else if let Err(problem) = bytes(text, first).and_then(|()| self.scan(text)) {
            self.problems = Problems::default();
            self.problems.listed.push(explained(problem, text));
        } else if self.problems.listed.iter().all(|problem| problem.rule == Rule::DuplicateKey) {
            self.status = Status::Readable;
        }
        self.status
    }

    /// Checks a line that is longer than the limit.
    pub fn too_long(&mut self, length: u64, limit: usize) -> Status {
        self.problems = Problems::default();
        let message = messages::line_too_long(length, limit);
        self.problems.listed.push(Problem::whole(Rule::LineTooLong, 0, message));
        self.status = Status::Unreadable;
        self.status
    }

    /// Returns the object of the readable line that was checked last.
    pub fn record<'t>(&'t self, text: &'t [u8]) -> Option<Node<'t>> {
        (self.status == Status::Readable).then(|| Node::root(text, &self.entries))
    }

    fn is_readable(&mut self, text: &[u8]) -> bool {
        self.scan(text).is_ok() && self.problems.listed.iter().all(|problem| problem.rule == Rule::DuplicateKey)
    }

    fn scan(&mut self, text: &[u8]) -> Result<(), Problem> {
        if text.len() > u32::MAX as usize {
            return Err(Problem::whole(Rule::LineTooLong, 0, messages::line_too_long(text.len(), u32::MAX)));
        }
        // The memory of one long line is not kept.
        self.entries.clear();
        self.entries.shrink_to(1 << 16);
        Scanner::new(text, &mut self.entries, &mut self.problems).scan()?;
        let root = Node::root(text, &self.entries);
        if root.kind() != Kind::Object {
            return Err(Problem::whole(Rule::NotAnObject, root.at(), messages::not_an_object(noun(root.kind()))));
        }
        self.problems.listed.sort_by_key(|problem| (problem.at, problem.rule));
        Ok(())
    }
}

fn bytes(text: &[u8], first: bool) -> Result<(), Problem> {
    if first && text.starts_with(b"\xEF\xBB\xBF") {
        let message = messages::BYTE_ORDER_MARK.to_string();
        return Err(Problem::whole(Rule::ByteOrderMark, 0, message));
    }
    if let Some(at) = memchr::memchr(0, text) {
        let count = memchr::memchr_iter(0, text).count();
        let message = messages::nul_bytes(count, text.len());
        return Err(Problem::whole(Rule::NulBytes, at, message));
    }
    simdutf8::compat::from_utf8(text).map(|_| ()).map_err(|error| {
        let at = error.valid_up_to();
        let reason = match (error.error_len(), text[at]) {
            (None, _) => "unexpected end of data",
            (_, 0x80..0xC2 | 0xF5..) => "invalid start byte",
            _ => "invalid continuation byte",
        };
        Problem::whole(Rule::InvalidUtf8, at, messages::invalid_utf8(format!("{:02x}", text[at]), reason))
    })
}

/// Returns a problem, its message reporting that a record begins inside another, where one does.
fn explained(mut problem: Problem, text: &[u8]) -> Problem {
    if problem.rule != Rule::InvalidJson || text.len() > LONG_LINE_BYTES {
        return problem;
    }
    let starts = RECORD_STARTS.into_iter().filter_map(|start| memchr::memmem::rfind(text, start.as_bytes()));
    let is_record = |at: &usize| *at > 0 && LineValidator::default().is_readable(&text[*at..]);
    if starts.into_iter().any(|at| is_record(&at)) {
        problem.message = messages::invalid_json_second_record(problem.at);
    }
    problem
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::False => "false",
        Kind::True => "true",
        Kind::Number => "a number",
        Kind::Array => "an array",
        _ => "a string",
    }
}

#[cfg(test)]
mod tests {
    use super::{LineValidator, Status};
    use crate::test_random::{rounds, Random};
    use crate::{Map, Value};

    const PIECES: [&str; 40] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\":",
        "\\",
        "\\u0061",
        "\\ud800",
        "\\udc00",
        "\\u12",
        "0",
        "01",
        "-",
        "1.5",
        "1e9",
        "1e999",
        ".",
        "e",
        "+",
        "true",
        "false",
        "null",
        "nul",
        "NaN",
        "Infinity",
        "-Infinity",
        " ",
        "\t",
        "\r",
        "\u{1}",
        "é",
        "𝄞",
        "{\"a\":1}",
        "[1,2]",
        "\"x\\n\"",
        "{\"a\":{\"a\":[]}}",
    ];

    fn validated(text: &[u8]) -> (Status, Option<Map>) {
        let mut validator = LineValidator::default();
        let status = validator.validate(text, false);
        (status, validator.record(text).map(Map::of))
    }

    /// A text is readable where another parser takes it for an object of finite numbers, and then both find one value.
    #[test]
    fn another_parser_agrees() {
        let mut random = Random::new(2);
        let mut readable = 0;
        for round in 0..rounds(400_000) {
            let count = 1 + random.below(12);
            let mut text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
            if round % 2 == 0 {
                text = format!("{{\"k\":{text}}}");
            }
            let (status, record) = validated(text.as_bytes());
            let other: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&text).ok();
            assert_eq!(other.is_some(), status == Status::Readable, "{text}");
            if let (Some(other), Some(record)) = (other, record) {
                readable += 1;
                let own: serde_json::Value = serde_json::to_value(&record).unwrap();
                // -0 is an integer here and a float there.
                assert_eq!(
                    serde_json::Value::Object(other).to_string().replace("-0.0", "0"),
                    own.to_string(),
                    "{text}"
                );
            }
        }
        assert!(readable > rounds(5_000), "{readable}");
    }

    /// Integers keep all their digits, whatever their keys are called.
    #[test]
    fn no_number_is_lost() {
        let key = "$serde_json::private::Number";
        let text = format!("{{\"{key}\":\"1\",\"n\":{}}}", "9".repeat(300));
        let (_, record) = validated(text.as_bytes());
        let record = record.unwrap();
        assert_eq!(Some("1"), record.get(key).and_then(Value::as_str));
        let Some(Value::Number(number)) = record.get("n") else { panic!("no number") };
        assert_eq!(Some("9".repeat(300)), number.integer_text());
    }

    /// The longest and the deepest text end in a verdict, in time that grows with their length.
    #[test]
    fn hostile_texts_come_to_an_end() {
        let wide: String = (0..500_000).map(|n| format!("\"k{n}\":0,")).collect();
        for text in ["[".repeat(1 << 24), "{\"a\":".repeat(1 << 21), "\"\\u".repeat(1 << 20), "9".repeat(1 << 20)] {
            assert_eq!(Status::Unreadable, validated(text.as_bytes()).0);
        }
        assert_eq!(Status::Readable, validated(format!("{{{wide}\"k\":0}}").as_bytes()).0);
    }
}
