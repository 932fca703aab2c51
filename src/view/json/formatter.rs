//! JSON with control and invisible characters escaped. It parses to the original text.

use crate::model::SecretStore;
use crate::view::escape;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use std::borrow::Cow;
use std::io::{self, Write};

/// Formats pretty or compact JSON with hidden characters as `\u` escapes, and names instead of placeholders of secrets.
pub struct EscapingFormatter {
    pretty: Option<PrettyFormatter<'static>>,
    /// Whether placeholders are kept.
    exact: bool,
}

impl Default for EscapingFormatter {
    fn default() -> Self {
        Self { pretty: Some(PrettyFormatter::default()), exact: false }
    }
}

impl EscapingFormatter {
    /// Returns a formatter that writes everything in one line.
    pub fn compact() -> Self {
        Self { pretty: None, exact: false }
    }

    /// Returns a formatter that keeps placeholders of secrets, for files that forge reads back.
    pub fn exact() -> Self {
        Self { exact: true, ..Self::default() }
    }
}

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let fragment = match !self.exact && SecretStore::has_placeholder(fragment) {
            true => Cow::Owned(SecretStore::mask_placeholders(fragment)),
            false => Cow::Borrowed(fragment),
        };
        let mut shown = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| escape::is_hidden_char(*c)) {
            out.write_all(&fragment.as_bytes()[shown..at])?;
            write_unit_escapes(out, c)?;
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

/// Writes a character as JSON escapes of its one or two UTF-16 units.
fn write_unit_escapes<W: ?Sized + Write>(out: &mut W, c: char) -> io::Result<()> {
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}
