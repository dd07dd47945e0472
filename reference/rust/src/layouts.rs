//! Knows lines that differ from an earlier one in their numbers alone: only these are looked at.

use crate::check::words::{byte, count, number, Token};
use crate::record_numbers::{in_seconds, Said};
use crate::tables::{BINARY32_LIMIT, MAX_LINE_BYTES};
use crate::tape::{Kind, Node};
use crate::Profile;

/// More are not kept: lines that have a text of their own are read one by one.
const MAX_LAYOUTS: usize = 32;

/// What a number is for.
#[derive(Clone, Copy)]
enum Role {
    Time,
    Step,
    Epoch,
    /// The metric with this index, which may be null.
    Metric(usize),
    /// The same of the loss of an entry.
    Loss(usize),
    Other,
}

/// A line of which the numbers may be others, and what its record says.
pub(crate) struct Layout {
    /// Tells it from all layouts that were added before.
    pub id: u64,
    profile: Profile,
    pub kind: &'static str,
    pub phase: Option<&'static str>,
    pub minimize: Option<bool>,
    pub time: Option<f64>,
    pub step: Option<i64>,
    pub epoch: Option<f64>,
    /// The names of the metrics.
    pub names: Vec<String>,
    /// Their values in the line that was read last; NaN stands for null.
    pub values: Vec<f64>,
    /// What comes before each number.
    numbers: Vec<(Token, Role)>,
    end: Token,
    /// The layout that came after this one the last time.
    next: usize,
}

impl Layout {
    /// Returns the layout of a readable line, its line feed included, whose record says this.
    pub fn of(line: &[u8], record: Node, said: Said, profile: Profile) -> Option<Layout> {
        let is_at = |place: usize, number: Option<Node>| number.is_some_and(|node| node.at() == place);
        let role = |place: usize| {
            if is_at(place, said.time.map(|(node, _)| node)) {
                Role::Time
            } else if is_at(place, said.step.map(|(node, _)| node)) {
                Role::Step
            } else if is_at(place, said.epoch.map(|(node, _)| node)) {
                Role::Epoch
            } else {
                let index = said.metrics.iter().position(|(_, (node, _))| node.at() == place);
                let is_loss = profile == Profile::Metrics && index.is_some_and(|index| said.metrics[index].0 == "loss");
                index.map_or(Role::Other, if is_loss { Role::Loss } else { Role::Metric })
            }
        };
        let (mut numbers, mut start) = (Vec::new(), 0);
        for (kind, at, end) in record.scalars() {
            let role = role(at);
            if kind == Kind::Number || kind == Kind::Null && matches!(role, Role::Metric(_) | Role::Loss(_)) {
                numbers.push((token(&line[start..at])?, role));
                start = end;
            }
        }
        Some(Layout {
            id: 0,
            profile,
            kind: said.kind,
            phase: said.phase,
            minimize: said.minimize,
            time: said.time.map(|(_, time)| time),
            step: said.step.map(|(_, step)| step),
            epoch: said.epoch.map(|(_, epoch)| epoch),
            values: said.metrics.iter().map(|(_, (_, value))| *value).collect(),
            names: said.metrics.into_iter().map(|(name, _)| name).collect(),
            numbers,
            end: token(&line[start..])?,
            next: 0,
        })
    }

    /// Returns whether its record has one metric, by a tag.
    pub fn is_scalar(&self) -> bool {
        self.profile == Profile::Kaun
    }

    /// Takes in the line at a place, and returns where it ends; None where it differs in more than its numbers, or
    /// where these are unusual.
    fn read(&mut self, text: &[u8], start: usize) -> Option<usize> {
        let mut at = start;
        for (before, role) in &self.numbers {
            if !before.is_at(text, at) {
                return None;
            }
            at += before.length;
            match *role {
                Role::Step => {
                    let (step, end) = count(text, at)?;
                    (self.step, at) = (Some(step as i64), end);
                    continue;
                }
                Role::Metric(index) | Role::Loss(index) if byte(text, at) == b'n' => {
                    at += text[at..].starts_with(b"null").then_some(4)?;
                    self.values[index] = f64::NAN;
                    continue;
                }
                _ => {}
            }
            let literal = number(text, at)?;
            at = literal.end;
            if matches!(role, Role::Other) {
                continue;
            }
            // The integer -0 is 0.
            let value = literal.value(text)? + if literal.is_integer() { 0.0 } else { -0.0 };
            match *role {
                Role::Time => self.time = Some(in_seconds(value, self.profile)),
                Role::Epoch => self.epoch = Some(value),
                // With such a loss, an entry does not count.
                Role::Loss(_) if value.abs() >= BINARY32_LIMIT => return None,
                Role::Metric(index) | Role::Loss(index) => self.values[index] = value,
                Role::Step | Role::Other => {}
            }
        }
        let is_early = self.profile == Profile::Toy && self.step.is_some() && self.time < Some(0.0);
        let end = at + self.end.length;
        (!is_early && self.end.is_at(text, at) && end - start <= MAX_LINE_BYTES).then_some(end)
    }
}

fn token(text: &[u8]) -> Option<Token> {
    std::str::from_utf8(text).ok().map(Token::new)
}

/// The layouts of the last lines.
#[derive(Default)]
pub(crate) struct Layouts {
    known: Vec<Layout>,
    last: usize,
    /// The one that gives way.
    oldest: usize,
    added: u64,
}

impl Layouts {
    /// Returns what the line at a place says, and where it ends; None for a line of a layout that is not known.
    pub fn read(&mut self, text: &[u8], start: usize) -> Option<(&Layout, usize)> {
        let guess = self.known.get(self.last)?.next;
        let (index, end) = match self.known[guess].read(text, start) {
            Some(end) => (guess, end),
            None => {
                let mut known = self.known.iter_mut().enumerate();
                known.find_map(|(index, layout)| layout.read(text, start).map(|end| (index, end)))?
            }
        };
        self.known[self.last].next = index;
        self.last = index;
        Some((&self.known[index], end))
    }

    /// Adds a layout, and returns it.
    pub fn add(&mut self, mut layout: Layout) -> &Layout {
        self.added += 1;
        layout.id = self.added;
        let index = if self.known.len() < MAX_LAYOUTS {
            self.known.push(layout);
            self.known.len() - 1
        } else {
            let oldest = self.oldest;
            self.known[oldest] = layout;
            self.oldest = (oldest + 1) % MAX_LAYOUTS;
            oldest
        };
        self.known[self.last].next = index;
        self.last = index;
        &self.known[index]
    }
}
