//! Result of `init`: the created files, and differences from the Ansible inventory.

use super::TextWriter;
use crate::config::AnsibleDifference;
use crate::view::style::{CHANGE, DIM, GOOD, HEAD, paint};
use crate::view::{InitResult, escape, format_count, formatting};
use std::io::{self, Write};

/// Writes the files, then the differences, then what to run next.
pub fn write_init_result(text: &TextWriter, init: &InitResult, out: &mut dyn Write) -> io::Result<()> {
    let groups = match init.groups {
        0 => String::new(),
        some => format!(", {}", format_count(some, "group")),
    };
    let (path, hosts) = (escape::escape_line(&init.inventory), format_count(init.hosts, "host"));
    writeln!(out, "{} {path}: {hosts}{groups}", paint(GOOD, "written:"))?;
    let recipe = escape::escape_line(&init.recipe.path);
    match init.recipe.is_new {
        true => writeln!(out, "{} {recipe}: a minimal starter recipe", paint(GOOD, "written:"))?,
        false => writeln!(out, "{} {recipe}, already exists", paint(DIM, "kept:"))?,
    }
    write_differences(&init.differences, text.verbose > 0, out)?;
    text.write_next_command("doctor", out)
}

fn write_differences(differences: &[AnsibleDifference], all: bool, out: &mut dyn Write) -> io::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "differences from Ansible"))?;
    for difference in differences {
        writeln!(out, "{} {}", paint(CHANGE, "~"), escape::escape_line(&difference.what))?;
        let places: Vec<_> = difference.at.iter().map(|place| escape::escape_line(place)).collect();
        let places = if all { places.join(", ") } else { formatting::list_names(&places) };
        writeln!(out, "    {}", paint(DIM, places))?;
    }
    writeln!(out)
}
