//! Writes saved plans: safe to print on a terminal, and parsed to the same value.

use super::formatter::EscapingFormatter;
use crate::engine::SavedPlan;
use serde::Serialize;
use std::io::{self, Write};

/// Writes a saved plan. Unlike documents, it keeps placeholders of secrets, because recorded queries are looked up by
/// their exact text.
pub fn write_saved_plan(saved: &SavedPlan, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, EscapingFormatter::exact());
    saved.serialize(&mut serializer)?;
    writeln!(out)
}
