//! Colours of the text output. Writers always write them; the stream strips them if they are not wanted.

use anstyle::{AnsiColor, Style};
use std::fmt::{self, Display};

pub const ADD: Style = AnsiColor::Green.on_default();
pub const REMOVE: Style = AnsiColor::Red.on_default();
pub const CHANGE: Style = AnsiColor::Yellow.on_default();
pub const DISRUPT: Style = AnsiColor::Magenta.on_default().bold();
pub const UNKNOWN: Style = AnsiColor::Cyan.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const HEAD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();

/// Returns `text` in a style.
pub fn paint<T: Display>(style: Style, text: T) -> PaintedText<T> {
    PaintedText { style, text }
}

/// Text in a style.
pub struct PaintedText<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for PaintedText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{:#}", self.style, self.text, self.style)
    }
}
