//! Result of `fetch`: cached, fetched and failed artifacts.

use super::TextWriter;
use crate::engine::{ArtifactFetchState, ArtifactReport, ComputedDigest, FetchReport};
use crate::view::style::{BAD, CHANGE, DIM, GOOD, UNKNOWN, paint};
use crate::view::{escape, format_count, format_size, formatting};
use std::io::{self, Write};

/// Writes one line per artifact, then the unresolved steps and the path of the cache.
pub fn write_fetch_report(text: &TextWriter, report: &FetchReport, out: &mut dyn Write) -> io::Result<()> {
    let locked = report.lock.is_some();
    report.artifacts.iter().try_for_each(|artifact| write_artifact(text, artifact, locked, out))?;
    if !report.open.is_empty() {
        let steps: Vec<String> =
            report.open.iter().map(|step| format!("`{}`", escape::escape_line(&step.to_string()))).collect();
        let verb = if steps.len() == 1 { "depends" } else { "depend" };
        let what = format!(
            "{} {verb} on facts of the hosts; `forge apply` fetches the artifacts",
            formatting::list_names(&steps)
        );
        writeln!(out, "{} {what}", paint(UNKNOWN, "not resolved:"))?;
    }
    if let Some(lock) = &report.lock {
        writeln!(out, "{} {}", paint(GOOD, "written:"), escape::escape_line(lock))?;
    }
    let undeclared = report.list_undeclared().count();
    if undeclared > 0 {
        let what = format_count(undeclared, "artifact");
        writeln!(out, "{} {what} without a declared sha256; apply fails until it is declared", paint(BAD, "missing:"))?;
    }
    let failed = report.list_failed().count();
    let here = format_count(report.artifacts.len() - failed, "artifact");
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    writeln!(out, "{here} available{failed}; cache: `{}`", escape::escape_line(&report.cache))
}

fn write_artifact(text: &TextWriter, artifact: &ArtifactReport, locked: bool, out: &mut dyn Write) -> io::Result<()> {
    let name = escape::escape_line(&artifact.name);
    match &artifact.had {
        ArtifactFetchState::Here { sha256, bytes } => {
            write_available(paint(DIM, "cached"), &name, sha256, *bytes, out)?
        }
        ArtifactFetchState::New { sha256, bytes } => {
            write_available(paint(CHANGE, "fetched"), &name, sha256, *bytes, out)?
        }
        ArtifactFetchState::Failed { why, hint } => {
            writeln!(out, "{} {}", paint(BAD, "failed"), escape::escape_line(why.raw()))?;
            hint.iter().try_for_each(|hint| writeln!(out, "  hint: {}", escape::escape_line(hint.raw())))?;
        }
    }
    artifact.computed.iter().try_for_each(|computed| write_computed_digest(computed, locked, out))?;
    if text.verbose > 0 || matches!(artifact.had, ArtifactFetchState::Failed { .. }) {
        let steps: Vec<String> =
            artifact.steps.iter().map(|step| escape::escape_line(&step.to_string()).into_owned()).collect();
        let users =
            format!("for {} on {}", formatting::list_names(&steps), formatting::summarize_hosts(artifact.hosts.iter()));
        writeln!(out, "  {}", paint(DIM, users))?;
    }
    Ok(())
}

/// Writes the source of a computed digest, and where to paste its line if it is not in the lock file.
fn write_computed_digest(computed: &ComputedDigest, locked: bool, out: &mut dyn Write) -> io::Result<()> {
    if computed.optional {
        writeln!(out, "  computed from the `helm pull` output; compare it with the publisher's digest, then paste:")?;
        return write_paste_lines(computed, out);
    }
    let source = match &computed.source_url {
        Some(url) => format!("from the download from {}", escape::escape_line(url)),
        None => "from the file".to_owned(),
    };
    let unprotected = if computed.protected { "" } else { " without TLS (not protected against tampering)" };
    let advice = "compare it with the publisher's digest";
    if locked {
        return writeln!(out, "  computed {source}{unprotected}; {advice}");
    }
    writeln!(out, "  computed {source}{unprotected}; {advice}, then paste:")?;
    write_paste_lines(computed, out)
}

fn write_paste_lines(computed: &ComputedDigest, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "    {}", escape::escape_line(&computed.line))?;
    computed.places.iter().try_for_each(|place| writeln!(out, "  next to {}", escape::escape_line(place)))
}

fn write_available(
    word: impl std::fmt::Display,
    name: &str,
    sha256: &str,
    bytes: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{word} {name} ({}, sha256 {sha256})", format_size(bytes))
}
