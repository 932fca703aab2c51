//! Markers in an output stream: they delimit the script's own bytes.
//!
//! The wrapper around a script prints `\x01MARK<` before it and `\x01MARK>STATUS.` after it, on stdout and on stderr.
//! Anything before the first marker is noise of login shells and sudo; a missing end marker means a lost link or a
//! killed shell, whatever the exit status of `ssh`.

/// A part of a marked stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamPiece {
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
pub(super) struct MarkerScanner {
    mark: Vec<u8>,
    held: Vec<u8>,
    begun: bool,
    ended: bool,
}

/// Maximum length in bytes of the text between a marker's tag and its full stop.
const TEXT_CAP: usize = 32;

enum MarkerMatch {
    /// The buffered bytes contain no start of a marker.
    Nothing,
    /// A marker may be incomplete from here on.
    Maybe(usize),
    /// A marker from the first index up to the second.
    Mark(usize, usize, StreamPiece),
}

impl MarkerScanner {
    pub(super) fn new(mark: &str) -> Self {
        let mark = [b"\x01", mark.as_bytes()].concat();
        Self { mark, held: Vec::new(), begun: false, ended: false }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Appends the next bytes of the stream and returns the completed pieces.
    pub(super) fn feed_bytes(&mut self, bytes: &[u8]) -> Vec<StreamPiece> {
        let mut pieces = Vec::new();
        self.held.extend_from_slice(bytes);
        while !self.ended && !self.held.is_empty() {
            match self.find_marker() {
                MarkerMatch::Nothing => self.emit_held(self.held.len(), &mut pieces),
                MarkerMatch::Maybe(at) => {
                    self.emit_held(at, &mut pieces);
                    break;
                }
                MarkerMatch::Mark(start, end, piece) => {
                    self.emit_held(start, &mut pieces);
                    self.held.drain(..end - start);
                    self.begun |= piece == StreamPiece::Begin;
                    self.ended = piece != StreamPiece::Begin;
                    pieces.push(piece);
                }
            }
        }
        pieces
    }

    /// Returns the buffered rest at the end of the stream.
    pub(super) fn finish_stream(&mut self) -> Vec<StreamPiece> {
        let mut pieces = Vec::new();
        if !self.ended {
            self.emit_held(self.held.len(), &mut pieces);
        }
        pieces
    }

    fn emit_held(&mut self, count: usize, pieces: &mut Vec<StreamPiece>) {
        if count > 0 {
            let bytes = self.held.drain(..count).collect();
            pieces.push(if self.begun { StreamPiece::Data(bytes) } else { StreamPiece::Noise(bytes) });
        }
    }

    fn find_marker(&self) -> MarkerMatch {
        let mut from = 0;
        while let Some(offset) = self.held[from..].iter().position(|byte| *byte == 1) {
            let at = from + offset;
            let rest = &self.held[at..];
            match rest.strip_prefix(self.mark.as_slice()) {
                None if self.mark.starts_with(rest) => return MarkerMatch::Maybe(at),
                None => {}
                Some(tag) => match read_tag(tag) {
                    MarkerTag::Incomplete => return MarkerMatch::Maybe(at),
                    MarkerTag::Bad => {}
                    MarkerTag::Read(length, piece) => {
                        return MarkerMatch::Mark(at, at + self.mark.len() + length, piece);
                    }
                },
            }
            from = at + 1;
        }
        MarkerMatch::Nothing
    }
}

enum MarkerTag {
    Incomplete,
    Bad,
    Read(usize, StreamPiece),
}

/// Parses the tag after a mark: `<`, `>STATUS.` or `!WORD.`.
fn read_tag(bytes: &[u8]) -> MarkerTag {
    let Some(kind) = bytes.first() else { return MarkerTag::Incomplete };
    if *kind == b'<' {
        return MarkerTag::Read(1, StreamPiece::Begin);
    }
    let Some(stop) = bytes.iter().take(TEXT_CAP).position(|byte| *byte == b'.') else {
        return if bytes.len() < TEXT_CAP { MarkerTag::Incomplete } else { MarkerTag::Bad };
    };
    let Ok(text) = std::str::from_utf8(&bytes[1..stop]) else { return MarkerTag::Bad };
    match kind {
        b'>' => text.parse().map_or(MarkerTag::Bad, |status| MarkerTag::Read(stop + 1, StreamPiece::End(status))),
        b'!' => MarkerTag::Read(stop + 1, StreamPiece::Refused(text.to_owned())),
        _ => MarkerTag::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"motd\x01\x01M\x01MK<a\x01b\x01MKc\0\xff\x01MK>12.junk";

    fn join_pieces(pieces: Vec<StreamPiece>) -> Vec<StreamPiece> {
        let mut out: Vec<StreamPiece> = Vec::new();
        for piece in pieces {
            match (out.last_mut(), piece) {
                (Some(StreamPiece::Noise(a)), StreamPiece::Noise(b))
                | (Some(StreamPiece::Data(a)), StreamPiece::Data(b)) => a.extend(b),
                (_, piece) => out.push(piece),
            }
        }
        out
    }

    fn expected_pieces() -> Vec<StreamPiece> {
        vec![
            StreamPiece::Noise(b"motd\x01\x01M".to_vec()),
            StreamPiece::Begin,
            StreamPiece::Data(b"a\x01b\x01MKc\0\xff".to_vec()),
            StreamPiece::End(12),
        ]
    }

    #[test]
    fn pieces_do_not_depend_on_chunk_boundaries() {
        for cut in 0..STREAM.len() {
            for second in cut..STREAM.len() {
                let mut scanner = MarkerScanner::new("MK");
                let mut pieces = scanner.feed_bytes(&STREAM[..cut]);
                pieces.extend(scanner.feed_bytes(&STREAM[cut..second]));
                pieces.extend(scanner.feed_bytes(&STREAM[second..]));
                pieces.extend(scanner.finish_stream());
                assert_eq!(join_pieces(pieces), expected_pieces(), "cut at {cut} and {second}");
            }
        }
    }

    #[test]
    fn unterminated_stream_keeps_its_last_bytes() {
        let mut scanner = MarkerScanner::new("MK");
        let mut pieces = scanner.feed_bytes(b"\x01MK<data\x01MK>1");
        assert!(scanner.has_begun() && !scanner.has_ended());
        pieces.extend(scanner.finish_stream());
        assert_eq!(join_pieces(pieces), vec![StreamPiece::Begin, StreamPiece::Data(b"data\x01MK>1".to_vec())]);
    }

    #[test]
    fn refusal_marker_carries_its_reason() {
        let mut scanner = MarkerScanner::new("MK");
        assert_eq!(scanner.feed_bytes(b"\x01MK!lost."), vec![StreamPiece::Refused("lost".to_owned())]);
    }
}
