//! Result of `validate`: one line per inventory. The diagnostics themselves are printed on stderr.

use crate::view::style::{BAD, GOOD, paint};
use crate::view::validation::{CheckedInventory, InventorySize};
use crate::view::{ValidationResult, escape, format_count};
use std::io::{self, Write};

/// Writes a line per inventory.
pub fn write_validation(validation: &ValidationResult, out: &mut dyn Write) -> io::Result<()> {
    validation.inventories.iter().try_for_each(|checked| write_inventory(checked, out))
}

fn write_inventory(checked: &CheckedInventory, out: &mut dyn Write) -> io::Result<()> {
    let path = escape::escape_line(checked.path.as_str()).into_owned();
    let warnings = checked.diags.0.len() - checked.diags.count_errors();
    let found = [(checked.diags.count_errors(), "error"), (warnings, "warning")];
    let found: Vec<_> = found.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format_count(n, what)).collect();
    let found = found.join(", ");
    match &checked.size {
        Some(size) if found.is_empty() => writeln!(out, "{} {path}: {}", paint(GOOD, "valid:"), format_declared(size)),
        Some(size) => writeln!(out, "{} {path}: {}; {found}", paint(GOOD, "valid:"), format_declared(size)),
        None => writeln!(out, "{} {path}: {found}", paint(BAD, "invalid:")),
    }
}

fn format_declared(size: &InventorySize) -> String {
    let (hosts, recipes, steps) =
        (format_count(size.hosts, "host"), format_count(size.recipes, "recipe"), format_count(size.steps, "step"));
    format!("{hosts}, {recipes}, {steps}")
}
