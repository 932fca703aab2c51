//! Output of `explain`: origins of values, steps, error codes and manual pages.

use super::graph::fold_hosts;
use crate::config::{RenderedStep, SharedByHosts, StepExplanation, StepInput, ValueExplanation, ValueOrigin};
use crate::diag::DiagCode;
use crate::model::Value;
use crate::view::style::{DIM, GOOD, HEAD, paint};
use crate::view::{escape, formatting};
use std::io::{self, Write};

/// Longer values are cut. The JSON output has the complete value.
const VALUE_CHARS: usize = 120;

/// Writes each value with its hosts and origin.
pub fn write_values(pages: &[SharedByHosts<ValueExplanation>], out: &mut dyn Write) -> io::Result<()> {
    for (at, page) in pages.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let hosts = escape::escape_line(&fold_hosts(&page.hosts)).into_owned();
        let name = paint(HEAD, escape::escape_line(&page.what.name));
        writeln!(out, "{name} = {}  {}", format_value(&page.what.winner.value), paint(DIM, format!("on {hosts}")))?;
        write_layers(&page.what, "  ", out)?;
    }
    Ok(())
}

/// Returns a value as one line of JSON.
pub(super) fn format_value(value: &Value) -> String {
    escape::escape_truncated(&value.to_string(), VALUE_CHARS)
}

fn write_layers(page: &ValueExplanation, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{indent}{} {}", paint(GOOD, "from"), format_origin(&page.winner))?;
    for read in &page.reads {
        writeln!(
            out,
            "{indent}  which reads {} = {}",
            escape::escape_line(&read.name),
            format_value(&read.winner.value)
        )?;
        write_layers(read, &format!("{indent}    "), out)?;
    }
    for loser in &page.overruled {
        let line = format!("overrides {} = {}", format_origin(loser), format_value(&loser.value));
        writeln!(out, "{indent}{}", paint(DIM, line))?;
    }
    Ok(())
}

fn format_origin(origin: &ValueOrigin) -> String {
    let template =
        origin.template.as_ref().map_or_else(String::new, |text| format!(" as `{}`", escape::escape_line(text)));
    let place = origin.place.as_ref().map_or_else(String::new, |place| format!("  {}", escape::escape_line(place)));
    format!("{}{template}{place}", escape::escape_line(&origin.from))
}

/// Writes everything known about a step without observing hosts.
pub fn write_step(page: &StepExplanation, out: &mut dyn Write) -> io::Result<()> {
    let name = format!("{}/{}", page.recipe, page.step);
    writeln!(
        out,
        "{}  {}  {}",
        paint(HEAD, escape::escape_line(&name)),
        page.kind,
        paint(DIM, escape::escape_line(&page.place))
    )?;
    write_traits(page, out)?;
    write_edges("depends on", page.waits_for.iter().map(formatting::describe_dependency), out)?;
    write_edges("required by", page.waited_for_by.iter().map(formatting::describe_dependent), out)?;
    page.rendered.iter().try_for_each(|rendered| self::write_rendered(rendered, out))
}

fn write_traits(page: &StepExplanation, out: &mut dyn Write) -> io::Result<()> {
    let otherwise = if page.otherwise_absent { "; removed if false" } else { "" };
    let rows = [
        ("scope", Some(page.scope.name().to_owned())),
        ("level", Some(format!("{:?}", page.level))),
        ("disruption", page.disruption.map(|class| format!("{class}: {}", class.meaning()))),
        ("guard", page.guard.clone()),
        ("when", page.when.as_ref().map(|when| format!("{when}{otherwise}"))),
        ("each", page.each.clone()),
        ("removal", page.keep.then(|| "keeps it".to_owned())),
        (
            "effective",
            page.effective_seen_by.map(|by| match page.effective_by.is_empty() {
                true => format!("detected by its {by}"),
                false => format!("by {}, detected by its {by}", formatting::join_with_or(&page.effective_by)),
            }),
        ),
        ("provides", Some(page.provides.join(", ")).filter(|text| !text.is_empty())),
        ("exports", Some(page.exports.join(", ")).filter(|text| !text.is_empty())),
    ];
    let said = rows.iter().filter_map(|(head, text)| Some((head, text.as_ref()?)));
    said.into_iter().try_for_each(|(head, text)| writeln!(out, "  {head:<10} {}", escape::escape_line(text)))
}

fn write_edges(head: &str, lines: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return writeln!(out, "\n{}: nothing", paint(HEAD, head));
    }
    writeln!(out, "\n{}", paint(HEAD, head))?;
    lines.iter().try_for_each(|line| writeln!(out, "  {}", escape::escape_line(line)))
}

fn write_rendered(rendered: &SharedByHosts<RenderedStep>, out: &mut dyn Write) -> io::Result<()> {
    let what = &rendered.what;
    let turn = what.key.as_ref().map_or_else(String::new, |key| format!(" [{}]", escape::escape_line(key)));
    let absent = if what.absent { "; removed here" } else { "" };
    writeln!(
        out,
        "\n{}{turn}{absent}",
        paint(HEAD, format!("on {}", escape::escape_line(&fold_hosts(&rendered.hosts))))
    )?;
    if let Some(why) = &what.why {
        writeln!(out, "  {}", escape::escape_line(why))?;
    }
    match &what.fields {
        Some(Value::Object(fields)) => fields
            .iter()
            .filter(|(_, field)| !field.is_null())
            .try_for_each(|(key, field)| writeln!(out, "  {}: {}", escape::escape_line(key), format_value(field)))?,
        Some(other) => writeln!(out, "  {}", format_value(other))?,
        None => {}
    }
    what.inputs.iter().try_for_each(|input| self::write_input(input, out))
}

fn write_input(input: &StepInput, out: &mut dyn Write) -> io::Result<()> {
    let name = escape::escape_line(&input.name);
    match (&input.value, input.note) {
        (Some(page), _) => {
            writeln!(out, "  reads {name} = {}", format_value(&page.winner.value))?;
            write_layers(page, "    ", out)
        }
        (None, Some(note)) => writeln!(out, "  reads {name}: {note}"),
        (None, None) => writeln!(out, "  reads {name}"),
    }
}

/// Writes the manual page of an error code.
pub fn write_error_code(code: DiagCode, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", paint(HEAD, format!("{}: {}", code.id(), code.title())))?;
    write_markdown(code.page(), out)
}

/// Writes forge's own Markdown: prose unchanged, headings without `#`, examples indented.
pub fn write_markdown(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut inside = false;
    for line in text.lines() {
        let title = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'));
        match (line.starts_with("```"), inside, title) {
            (true, ..) => inside = !inside,
            (false, true, _) if line.is_empty() => writeln!(out)?,
            (false, true, _) => writeln!(out, "    {line}")?,
            (false, false, Some(title)) => writeln!(out, "{}", paint(HEAD, title))?,
            (false, false, None) => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}
