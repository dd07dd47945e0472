//! The bytes of a stream from a file or a pipe, decompressed where they are gzip data.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Gives the bytes of a stream; gzip data is known by its first bytes.
pub struct Source<R> {
    state: State<R>,
    given: u64,
}

enum State<R> {
    Unread(R),
    Plain(R),
    /// More was read than the caller had room for.
    Begun(Whole<R>),
    /// One member of gzip data; more may follow.
    Gzip(GzDecoder<BufReader<Whole<R>>>),
    Done,
}

/// Opens a regular file; None where it is another one. Does not wait for the other end of a pipe.
pub fn open_regular(path: &Path) -> io::Result<Option<File>> {
    if !path.metadata()?.is_file() {
        return Ok(None);
    }
    let mut options = File::options();
    // It may be another one by now.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nix::fcntl::OFlag::O_NONBLOCK.bits());
    let file = options.read(true).open(path)?;
    Ok(Some(file).filter(|file| file.metadata().is_ok_and(|found| found.is_file())))
}

impl Source<File> {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Source<File>> {
        File::open(path).map(Source::new)
    }
}

impl<R: Read> Source<R> {
    /// Reads from where `input` is.
    pub fn new(input: R) -> Source<R> {
        Source { state: State::Unread(input), given: 0 }
    }

    /// Reads the first bytes: all that fit, so that later reads stay in step with the pages of the file.
    fn begin(&mut self, mut input: R, buffer: &mut [u8]) -> io::Result<usize> {
        let mut head = vec![0; buffer.len().max(GZIP_MAGIC.len())];
        let mut count = input.read(&mut head)?;
        if head[..count] == GZIP_MAGIC[..1] {
            count += input.read(&mut head[1..])?;
        }
        head.truncate(count);
        if head.starts_with(&GZIP_MAGIC) {
            let whole = Cursor::new(head).chain(input);
            self.state = State::Gzip(GzDecoder::new(BufReader::new(whole)));
            return self.read(buffer);
        }
        if count > buffer.len() {
            self.state = State::Begun(Cursor::new(head).chain(input));
            return self.read(buffer);
        }
        buffer[..count].copy_from_slice(&head);
        self.state = State::Plain(input);
        Ok(count)
    }

    /// Goes on with the next member of gzip data, which padding may precede.
    fn next_member(mut input: BufReader<Whole<R>>) -> io::Result<State<R>> {
        loop {
            let data = input.fill_buf()?;
            let padding = data.iter().take_while(|byte| **byte == 0).count();
            if data.is_empty() {
                return Ok(State::Done);
            }
            if padding == 0 {
                return Ok(State::Gzip(GzDecoder::new(input)));
            }
            input.consume(padding);
        }
    }

    fn explained(&self, error: io::Error) -> io::Error {
        let given = self.given;
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => crate::messages::gzip_cut(given),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => crate::messages::gzip_damaged(given, &error),
            _ => return error,
        };
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = match &mut self.state {
                State::Unread(_) | State::Done => 0,
                State::Plain(input) => return input.read(buffer),
                State::Begun(input) => return input.read(buffer),
                State::Gzip(input) => input.read(buffer).map_err(|error| self.explained(error))?,
            };
            if count > 0 || buffer.is_empty() {
                self.given += count as u64;
                return Ok(count);
            }
            self.state = match std::mem::replace(&mut self.state, State::Done) {
                State::Unread(input) => return self.begin(input, buffer),
                State::Gzip(input) => Self::next_member(input.into_inner())?,
                State::Plain(_) | State::Begun(_) | State::Done => return Ok(0),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::Source;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    fn read(data: &[u8]) -> Result<Vec<u8>, String> {
        let mut found = Vec::new();
        Source::new(data).read_to_end(&mut found).map_err(|error| error.to_string())?;
        Ok(found)
    }

    #[test]
    fn gzip_data_is_decompressed_and_nothing_else_is_changed() {
        for plain in [&b""[..], b"\x1f", b"\x1f\x00", b"{}\n"] {
            assert_eq!(Ok(plain.to_vec()), read(plain));
            let single: Vec<u8> = Source::new(plain).bytes().map(|byte| byte.unwrap()).collect();
            assert_eq!(plain, single);
        }
        let members = [packed(b"{}\n"), vec![0; 512], packed(b"[]\n"), vec![0; 7]].concat();
        assert_eq!(Ok(b"{}\n[]\n".to_vec()), read(&members));
    }

    /// Gives one byte for each read, as a slow pipe may.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn a_slow_source_is_the_same_stream() {
        for data in [packed(b"{}\n"), b"\x1f\x00 is not gzip data".to_vec()] {
            let mut found = Vec::new();
            Source::new(Slow(&data)).read_to_end(&mut found).unwrap();
            assert_eq!(read(&data).unwrap(), found);
        }
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let whole = packed("{\"a\":1}\n".repeat(10_000).as_bytes());
        assert!(read(&whole[..whole.len() - 9]).unwrap_err().contains("cut off"));
        let damaged = [&whole[..whole.len() - 8], b"12345678"].concat();
        assert!(read(&damaged).unwrap_err().contains("damaged after 80000 bytes"));
    }
}
