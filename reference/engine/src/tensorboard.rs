//! Writes the scalars of TensorBoard event files as lines of toy/v1, many at once.
//!
//! Only what is plainly a scalar is taken: a record with a right check sum, a time that follows, a step, and values of
//! which each is one finite number under a plain name. Python reads the rest, and says what is wrong with it.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use toyspec::binary64_text;

use crate::failures::{caught, failure};

const HEADER: usize = 12;
const FOOTER: usize = 4;
const LAST_WALL: f64 = 253_402_300_800.0;
const LONGEST_PAUSE: f64 = 365.0 * 86_400.0;
const LARGEST_STEP: u64 = 1 << 53;
const LONGEST_NAME: usize = 1024;
const POLYNOMIAL: u32 = 0x82F6_3B78;
const MASK_DELTA: u32 = 0xA282_EAD8;
const FLOAT: u64 = 1;
const DOUBLE: u64 = 2;
const SLICES: usize = 8;

/// The lines of the records at the start of some bytes.
#[derive(IntoPyObject)]
pub(crate) struct ScalarLines<'py> {
    lines: Bound<'py, PyBytes>,
    /// Number of records that were taken.
    records: usize,
    /// Number of values in them, one for each line.
    values: usize,
    /// The time of the last one, in seconds since the start of the run.
    last: f64,
}

/// Returns the lines of the records from the byte `at` on, up to the first that is not plainly of scalars.
///
/// `start` is the start of the run, in seconds since the Unix epoch; `last` is the time of the record before, in seconds
/// since then, if the run is `running`.
#[pyfunction]
pub(crate) fn tensorboard_lines<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyBytes>,
    at: usize,
    start: f64,
    last: f64,
    running: bool,
) -> PyResult<ScalarLines<'py>> {
    let bytes = data.as_bytes();
    let made = py.detach(|| caught(|| Lines::of(bytes.get(at..).unwrap_or_default(), start, last, running)));
    let made = made.map_err(|place| failure(&place))?;
    Ok(ScalarLines { lines: PyBytes::new(py, &made.text), records: made.records, values: made.values, last: made.last })
}

struct Lines {
    text: Vec<u8>,
    records: usize,
    values: usize,
    last: f64,
    /// Time and step of the last event, and the start of its lines: the values of a step are successive events.
    head: (u64, u64, String),
}

impl Lines {
    fn of(data: &[u8], start: f64, last: f64, running: bool) -> Self {
        let mut made =
            Self { text: Vec::with_capacity(2 * data.len()), records: 0, values: 0, last, head: (0, 0, String::new()) };
        let (mut rest, mut running) = (data, running);
        while let Some((payload, after)) = record(rest) {
            let before = (made.text.len(), made.values);
            if made.add(payload, start, running).is_none() {
                made.text.truncate(before.0);
                made.values = before.1;
                break;
            }
            made.records += 1;
            running = running || made.values > before.1;
            rest = after;
        }
        made
    }

    /// Adds the lines of an event; None where it is not plainly one of scalars.
    fn add(&mut self, payload: &[u8], start: f64, running: bool) -> Option<()> {
        let (mut wall, mut step, mut summary) = (None, None, None);
        let mut fields = Fields(payload);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Field::Fixed64(bits)) if wall.is_none() => wall = Some(f64::from_bits(bits)),
                (2, Field::Varint(found)) if step.is_none() => step = Some(found),
                (5, Field::Bytes(found)) if summary.is_none() => summary = Some(found),
                _ => return None,
            }
        }
        let (wall, step) = (wall?, step.unwrap_or(0));
        let t = wall - start;
        let follows = t >= self.last && wall < LAST_WALL && !(running && t - self.last >= LONGEST_PAUSE);
        if !follows || step > LARGEST_STEP {
            return None;
        }
        // The sum has no sign of zero.
        let t = t + 0.0;
        if self.head.2.is_empty() || (t.to_bits(), step) != (self.head.0, self.head.1) {
            let text = format!("{{\"kind\":\"scalars\",\"t\":{},\"step\":{step},\"values\":{{\"", binary64_text(t));
            self.head = (t.to_bits(), step, text);
        }
        let mut values = Fields(summary?);
        while let Some(found) = values.next()? {
            let (1, Field::Bytes(value)) = found else { return None };
            let (name, number) = scalar(value)?;
            self.text.extend_from_slice(self.head.2.as_bytes());
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(b"\":");
            self.text.extend_from_slice(binary64_text(number).as_bytes());
            self.text.extend_from_slice(b"}}\n");
            self.values += 1;
            self.last = t;
        }
        Some(())
    }
}

/// Returns the payload of the record at the start of some bytes, and what is after it; None without a whole, right one.
fn record(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u64::from_le_bytes(data.get(..8)?.try_into().ok()?)).ok()?;
    let end = HEADER.checked_add(length)?;
    let (payload, stored) = (data.get(HEADER..end)?, data.get(end..end.checked_add(FOOTER)?)?);
    let wanted = u32::from_le_bytes(stored.try_into().ok()?);
    (masked(crc32c(payload)) == wanted).then(|| (payload, &data[end + FOOTER..]))
}

/// Returns name and number of a value that is one finite number under a plain name.
fn scalar(data: &[u8]) -> Option<(&[u8], f64)> {
    let (mut name, mut number) = (None, None);
    let mut fields = Fields(data);
    while let Some((key, value)) = fields.next()? {
        match (key, value) {
            (1, Field::Bytes(found)) if name.is_none() => name = Some(found),
            (2, Field::Fixed32(bits)) if number.is_none() => number = Some(f64::from(f32::from_bits(bits))),
            (8, Field::Bytes(found)) if number.is_none() => number = Some(one_number(found)?),
            (9, Field::Bytes(found)) if is_of_scalars(found)? => {}
            _ => return None,
        }
    }
    let (name, number) = (name?, number?);
    let is_plain = name.iter().all(|byte| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~'));
    (is_plain && !name.is_empty() && name.len() <= LONGEST_NAME && number.is_finite()).then_some((name, number))
}

/// Returns whether the metadata of a value are those of the plugin of scalars, or of none.
fn is_of_scalars(metadata: &[u8]) -> Option<bool> {
    let mut fields = Fields(metadata);
    while let Some((number, value)) = fields.next()? {
        if let (1, Field::Bytes(plugin)) = (number, value) {
            let mut members = Fields(plugin);
            while let Some((key, value)) = members.next()? {
                if key == 1 && !matches!(value, Field::Bytes(b"scalars" | b"")) {
                    return Some(false);
                }
            }
        }
    }
    Some(true)
}

/// Returns the number in a tensor of binary32 or binary64 that has exactly one, and has it once.
fn one_number(tensor: &[u8]) -> Option<f64> {
    let (mut kind, mut found) = (None, None);
    let mut fields = Fields(tensor);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Field::Varint(each)) if kind.is_none() => kind = Some(each),
            (2, Field::Bytes(shape)) if is_single(shape)? => {}
            (3, Field::Varint(_)) => {}
            (4, Field::Bytes(each)) if found.is_none() => found = Some((0, Field::Bytes(each))),
            (5 | 6, each) if found.is_none() => found = Some((number, each)),
            _ => return None,
        }
    }
    match (kind?, found?) {
        (FLOAT, (5, Field::Fixed32(bits))) => Some(f64::from(f32::from_bits(bits))),
        (FLOAT, (0 | 5, Field::Bytes(bytes))) => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        (DOUBLE, (6, Field::Fixed64(bits))) => Some(f64::from_bits(bits)),
        (DOUBLE, (0 | 6, Field::Bytes(bytes))) => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// Returns whether a tensor of a shape has one element.
fn is_single(shape: &[u8]) -> Option<bool> {
    let mut fields = Fields(shape);
    while let Some((number, value)) = fields.next()? {
        let (2, Field::Bytes(dimension)) = (number, value) else { return Some(false) };
        let mut members = Fields(dimension);
        let mut size = 0;
        while let Some((key, value)) = members.next()? {
            if let (1, Field::Varint(each)) = (key, value) {
                size = each;
            }
        }
        if size != 1 {
            return Some(false);
        }
    }
    Some(true)
}

#[derive(Clone, Copy)]
enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message of protobuf.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Returns number and value of the next field, `Some(None)` at the end, and None for what is not a message.
    #[allow(clippy::option_option)]
    fn next(&mut self) -> Option<Option<(u64, Field<'a>)>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some(Some((key >> 3, value)))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(first & 0x7F) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        // A tenth byte: a negative number, which no step is.
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(found)
    }
}

static TABLES: [[u32; 256]; SLICES] = tables();

const fn tables() -> [[u32; 256]; SLICES] {
    let mut tables = [[0; 256]; SLICES];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut slice = 1;
    while slice < SLICES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        slice += 1;
    }
    tables
}

/// Returns the CRC-32C of some bytes, eight of which are taken at once.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = !0_u32;
    let (eights, rest) = data.as_chunks::<SLICES>();
    for eight in eights {
        let low = crc ^ u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]);
        let [a, b, c, d] = low.to_le_bytes().map(usize::from);
        crc = TABLES[7][a] ^ TABLES[6][b] ^ TABLES[5][c] ^ TABLES[4][d];
        crc ^= TABLES[3][usize::from(eight[4])] ^ TABLES[2][usize::from(eight[5])];
        crc ^= TABLES[1][usize::from(eight[6])] ^ TABLES[0][usize::from(eight[7])];
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}
