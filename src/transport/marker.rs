//! Markers in an output stream: they delimit the script's own bytes.
//!
//! The wrapper around a script prints `\x01MARK<` before it and `\x01MARK>STATUS.` after it, on stdout and on stderr.
//! Anything before the first marker is noise of login shells and sudo; a missing end marker means a lost link or a
//! killed shell, whatever the exit status of `ssh`.

/// A part of a marked stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes before the begin marker.
    Noise(Vec<u8>),
    Begin,
    /// Bytes of the script.
    Data(Vec<u8>),
    /// The script's exit status.
    End(i32),
    /// The wrapper refused to run the script: one word with the reason.
    Refused(String),
}

/// Splits a stream at its markers. Bytes after the end marker are dropped.
pub(super) struct Scanner {
    mark: Vec<u8>,
    held: Vec<u8>,
    begun: bool,
    ended: bool,
}

/// Maximum length in bytes of the text between a marker's tag and its full stop.
const TEXT_CAP: usize = 32;

enum Found {
    /// The buffered bytes contain no start of a marker.
    Nothing,
    /// A marker may be incomplete from here on.
    Maybe(usize),
    /// A marker from the first index up to the second.
    Mark(usize, usize, Piece),
}

impl Scanner {
    pub(super) fn new(mark: &str) -> Self {
        let mark = [b"\x01", mark.as_bytes()].concat();
        Self { mark, held: Vec::new(), begun: false, ended: false }
    }

    pub(super) fn begun(&self) -> bool {
        self.begun
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Appends the next bytes of the stream and returns the completed pieces.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.held.extend_from_slice(bytes);
        while !self.ended && !self.held.is_empty() {
            match self.find() {
                Found::Nothing => self.emit(self.held.len(), &mut pieces),
                Found::Maybe(at) => {
                    self.emit(at, &mut pieces);
                    break;
                }
                Found::Mark(start, end, piece) => {
                    self.emit(start, &mut pieces);
                    self.held.drain(..end - start);
                    self.begun |= piece == Piece::Begin;
                    self.ended = piece != Piece::Begin;
                    pieces.push(piece);
                }
            }
        }
        pieces
    }

    /// Returns the buffered rest at the end of the stream.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if !self.ended {
            self.emit(self.held.len(), &mut pieces);
        }
        pieces
    }

    fn emit(&mut self, count: usize, pieces: &mut Vec<Piece>) {
        if count > 0 {
            let bytes = self.held.drain(..count).collect();
            pieces.push(if self.begun { Piece::Data(bytes) } else { Piece::Noise(bytes) });
        }
    }

    fn find(&self) -> Found {
        let mut from = 0;
        while let Some(offset) = self.held[from..].iter().position(|byte| *byte == 1) {
            let at = from + offset;
            let rest = &self.held[at..];
            match rest.strip_prefix(self.mark.as_slice()) {
                None if self.mark.starts_with(rest) => return Found::Maybe(at),
                None => {}
                Some(tag) => match read_tag(tag) {
                    Tag::Incomplete => return Found::Maybe(at),
                    Tag::Bad => {}
                    Tag::Read(length, piece) => return Found::Mark(at, at + self.mark.len() + length, piece),
                },
            }
            from = at + 1;
        }
        Found::Nothing
    }
}

enum Tag {
    Incomplete,
    Bad,
    Read(usize, Piece),
}

/// Parses the tag after a mark: `<`, `>STATUS.` or `!WORD.`.
fn read_tag(bytes: &[u8]) -> Tag {
    let Some(kind) = bytes.first() else { return Tag::Incomplete };
    if *kind == b'<' {
        return Tag::Read(1, Piece::Begin);
    }
    let Some(stop) = bytes.iter().take(TEXT_CAP).position(|byte| *byte == b'.') else {
        return if bytes.len() < TEXT_CAP { Tag::Incomplete } else { Tag::Bad };
    };
    let Ok(text) = std::str::from_utf8(&bytes[1..stop]) else { return Tag::Bad };
    match kind {
        b'>' => text.parse().map_or(Tag::Bad, |status| Tag::Read(stop + 1, Piece::End(status))),
        b'!' => Tag::Read(stop + 1, Piece::Refused(text.to_owned())),
        _ => Tag::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"motd\x01\x01M\x01MK<a\x01b\x01MKc\0\xff\x01MK>12.junk";

    fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
        let mut out: Vec<Piece> = Vec::new();
        for piece in pieces {
            match (out.last_mut(), piece) {
                (Some(Piece::Noise(a)), Piece::Noise(b)) | (Some(Piece::Data(a)), Piece::Data(b)) => a.extend(b),
                (_, piece) => out.push(piece),
            }
        }
        out
    }

    fn expected() -> Vec<Piece> {
        vec![
            Piece::Noise(b"motd\x01\x01M".to_vec()),
            Piece::Begin,
            Piece::Data(b"a\x01b\x01MKc\0\xff".to_vec()),
            Piece::End(12),
        ]
    }

    #[test]
    fn cuts_at_every_place_give_the_same_pieces() {
        for cut in 0..STREAM.len() {
            for second in cut..STREAM.len() {
                let mut scanner = Scanner::new("MK");
                let mut pieces = scanner.feed(&STREAM[..cut]);
                pieces.extend(scanner.feed(&STREAM[cut..second]));
                pieces.extend(scanner.feed(&STREAM[second..]));
                pieces.extend(scanner.finish());
                assert_eq!(joined(pieces), expected(), "cut at {cut} and {second}");
            }
        }
    }

    #[test]
    fn a_stream_without_end_keeps_its_last_bytes() {
        let mut scanner = Scanner::new("MK");
        let mut pieces = scanner.feed(b"\x01MK<data\x01MK>1");
        assert!(scanner.begun() && !scanner.ended());
        pieces.extend(scanner.finish());
        assert_eq!(joined(pieces), vec![Piece::Begin, Piece::Data(b"data\x01MK>1".to_vec())]);
    }

    #[test]
    fn a_refusal_carries_its_word() {
        let mut scanner = Scanner::new("MK");
        assert_eq!(scanner.feed(b"\x01MK!lost."), vec![Piece::Refused("lost".to_owned())]);
    }
}
