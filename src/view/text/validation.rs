//! Result of `validate`: one line per inventory. The diagnostics themselves are printed on stderr.

use crate::view::style::{BAD, GOOD, paint};
use crate::view::validation::{CheckedInventory, InventorySize};
use crate::view::{ValidationResult, count, escape};
use std::io::{self, Write};

/// Writes a line per inventory.
pub fn write(validation: &ValidationResult, out: &mut dyn Write) -> io::Result<()> {
    validation.inventories.iter().try_for_each(|checked| one(checked, out))
}

fn one(checked: &CheckedInventory, out: &mut dyn Write) -> io::Result<()> {
    let path = escape::line(checked.path.as_str()).into_owned();
    let warnings = checked.diags.0.len() - checked.diags.errors();
    let found = [(checked.diags.errors(), "error"), (warnings, "warning")];
    let found: Vec<_> = found.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(n, what)).collect();
    let found = found.join(", ");
    match &checked.size {
        Some(size) if found.is_empty() => writeln!(out, "{} {path}: {}", paint(GOOD, "valid:"), declares(size)),
        Some(size) => writeln!(out, "{} {path}: {}; {found}", paint(GOOD, "valid:"), declares(size)),
        None => writeln!(out, "{} {path}: {found}", paint(BAD, "invalid:")),
    }
}

fn declares(size: &InventorySize) -> String {
    let (hosts, recipes, steps) = (count(size.hosts, "host"), count(size.recipes, "recipe"), count(size.steps, "step"));
    format!("{hosts}, {recipes}, {steps}")
}
