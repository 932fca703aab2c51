//! Artifacts: what is here now, what came, what cannot be had.

use super::Text;
use crate::engine::{ArtifactLine, FetchReport, Had};
use crate::view::style::{BAD, CHANGE, DIM, GOOD, UNKNOWN, paint};
use crate::view::{count, escape, size, words};
use std::io::{self, Write};

/// Writes one line per artifact, then what is open and where it all lies.
pub fn write(text: &Text, report: &FetchReport, out: &mut dyn Write) -> io::Result<()> {
    report.artifacts.iter().try_for_each(|artifact| line(text, artifact, out))?;
    if !report.open.is_empty() {
        let steps: Vec<String> =
            report.open.iter().map(|step| format!("`{}`", escape::line(&step.to_string()))).collect();
        let verb = if steps.len() == 1 { "depends" } else { "depend" };
        let what = format!("{} {verb} on what only hosts can tell: `forge apply` fetches that", words::some(&steps));
        writeln!(out, "{} {what}", paint(UNKNOWN, "open:"))?;
    }
    if let Some(lock) = &report.lock {
        writeln!(out, "{} {}", paint(GOOD, "written:"), escape::line(lock))?;
    }
    let failed = report.failed().count();
    let here = count(report.artifacts.len() - failed, "artifact");
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    writeln!(out, "{here} at hand{failed}; the cache is `{}`", escape::line(&report.cache))
}

fn line(text: &Text, artifact: &ArtifactLine, out: &mut dyn Write) -> io::Result<()> {
    let name = escape::line(&artifact.name);
    match &artifact.had {
        Had::Here { sha256, bytes } => told(paint(DIM, "here"), &name, sha256, *bytes, out)?,
        Had::New { sha256, bytes } => told(paint(CHANGE, "fetched"), &name, sha256, *bytes, out)?,
        Had::Failed { why, hint } => {
            writeln!(out, "{} {}", paint(BAD, "failed"), escape::line(why.raw()))?;
            hint.iter().try_for_each(|hint| writeln!(out, "  hint: {}", escape::line(hint.raw())))?;
        }
    }
    if text.verbose > 0 || matches!(artifact.had, Had::Failed { .. }) {
        let steps: Vec<String> =
            artifact.steps.iter().map(|step| escape::line(&step.to_string()).into_owned()).collect();
        let users = format!("for {} on {}", words::some(&steps), count(artifact.hosts.len(), "host"));
        writeln!(out, "  {}", paint(DIM, users))?;
    }
    Ok(())
}

fn told(word: impl std::fmt::Display, name: &str, sha256: &str, bytes: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{word} {name} ({}, sha256 {sha256})", size(bytes))
}
