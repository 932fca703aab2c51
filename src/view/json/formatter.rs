//! JSON with everything escaped that acts on a terminal or cannot be seen; parsed back it is the same text.

use crate::model::SecretStore;
use crate::view::escape;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use std::borrow::Cow;
use std::io::{self, Write};

/// Pretty printing or a single line, with hidden characters as `\u` escapes and placeholders of secrets by their names.
pub struct Harmless {
    pretty: Option<PrettyFormatter<'static>>,
    /// Whether placeholders stay as they are.
    exact: bool,
}

impl Default for Harmless {
    fn default() -> Self {
        Self { pretty: Some(PrettyFormatter::default()), exact: false }
    }
}

impl Harmless {
    /// Returns one that writes everything in a line.
    pub fn compact() -> Self {
        Self { pretty: None, exact: false }
    }

    /// Returns one that leaves placeholders of secrets as they are, for what forge itself reads again.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }
}

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let fragment = match !self.exact && SecretStore::mentions(fragment) {
            true => Cow::Owned(SecretStore::mask(fragment)),
            false => Cow::Borrowed(fragment),
        };
        let mut shown = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| escape::hidden(*c)) {
            out.write_all(&fragment.as_bytes()[shown..at])?;
            unit_escapes(out, c)?;
            shown = at + c.len_utf8();
        }
        out.write_all(&fragment.as_bytes()[shown..])
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_array(out),
            None => CompactFormatter.begin_array(out),
        }
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.end_array(out),
            None => CompactFormatter.end_array(out),
        }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_array_value(out, first),
            None => CompactFormatter.begin_array_value(out, first),
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.end_array_value(out),
            None => CompactFormatter.end_array_value(out),
        }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_object(out),
            None => CompactFormatter.begin_object(out),
        }
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.end_object(out),
            None => CompactFormatter.end_object(out),
        }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_object_key(out, first),
            None => CompactFormatter.begin_object_key(out, first),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.begin_object_value(out),
            None => CompactFormatter.begin_object_value(out),
        }
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        match &mut self.pretty {
            Some(pretty) => pretty.end_object_value(out),
            None => CompactFormatter.end_object_value(out),
        }
    }
}

/// JSON escapes UTF-16 units: one or two per character.
fn unit_escapes<W: ?Sized + Write>(out: &mut W, c: char) -> io::Result<()> {
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}
