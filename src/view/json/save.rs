//! The file of a saved plan: as a document, harmless on a terminal, and the same value once it is read.

use super::formatter::Harmless;
use crate::engine::SavedPlan;
use serde::Serialize;
use std::io::{self, Write};

/// Writes a saved plan. What stands for a secret stays as it is, unlike in documents: questions to hosts are found
/// again by their exact text.
pub fn save(saved: &SavedPlan, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Harmless::exact());
    saved.serialize(&mut serializer)?;
    writeln!(out)
}
