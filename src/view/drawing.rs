//! The dependency graph as DOT and Mermaid, with labels escaped for each grammar.

use super::escape;
use crate::config::{ChartEdge, ChartEndpoint, ChartStep, DependencyChart};
use std::io::{self, Write};

/// Writes the chart for Graphviz. Edges between whole recipes connect their boxes.
pub fn dot(chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph {} {{", dot_text(&chart.cluster))?;
    writeln!(out, "  compound=true; rankdir=LR; node [shape=box];")?;
    for (at, recipe) in recipes(chart).iter().enumerate() {
        writeln!(out, "  subgraph cluster_{at} {{\n    label={};", dot_text(recipe))?;
        for (index, step) in of_recipe(chart, recipe) {
            writeln!(out, "    s{index} [label={}];", dot_text(&label(step).join("\n")))?;
        }
        writeln!(out, "  }}")?;
    }
    chart.edges.iter().try_for_each(|edge| dot_edge(chart, edge, out))?;
    writeln!(out, "}}")
}

fn dot_edge(chart: &DependencyChart, edge: &ChartEdge, out: &mut dyn Write) -> io::Result<()> {
    let (Some(from), Some(to)) = (last(chart, &edge.from), first(chart, &edge.to)) else { return Ok(()) };
    let mut attributes = match edge.why {
        "order" => vec!["style=dotted".to_owned()],
        "after" => vec![format!("label={}, style=dashed", dot_text(&words(edge)))],
        "barrier" => vec![format!("label={}, style=bold", dot_text(&words(edge)))],
        _ => vec![format!("label={}", dot_text(&words(edge)))],
    };
    attributes.extend(cluster(chart, &edge.from).map(|at| format!("ltail=cluster_{at}")));
    attributes.extend(cluster(chart, &edge.to).map(|at| format!("lhead=cluster_{at}")));
    writeln!(out, "  s{from} -> s{to} [{}];", attributes.join(", "))
}

/// Returns a quoted DOT string.
fn dot_text(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| escape::line(line).replace('\\', "\\\\")).collect();
    format!("\"{}\"", lines.join("\\n").replace('"', "\\\""))
}

/// Writes the chart as a Mermaid flowchart.
pub fn mermaid(chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "flowchart LR")?;
    for (at, recipe) in recipes(chart).iter().enumerate() {
        writeln!(out, "  subgraph r{at}[\"{}\"]", mermaid_text(recipe))?;
        for (index, step) in of_recipe(chart, recipe) {
            let lines: Vec<String> = label(step).iter().map(|line| mermaid_text(line)).collect();
            writeln!(out, "    s{index}[\"{}\"]", lines.join("<br/>"))?;
        }
        writeln!(out, "  end")?;
    }
    chart.edges.iter().try_for_each(|edge| mermaid_edge(chart, edge, out))
}

fn mermaid_edge(chart: &DependencyChart, edge: &ChartEdge, out: &mut dyn Write) -> io::Result<()> {
    let end = |end: &ChartEndpoint, step: Option<usize>| match cluster(chart, end) {
        Some(at) => Some(format!("r{at}")),
        None => step.map(|at| format!("s{at}")),
    };
    let (from, to) = (end(&edge.from, last(chart, &edge.from)), end(&edge.to, first(chart, &edge.to)));
    let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
    match edge.why {
        "order" => writeln!(out, "  {from} --> {to}"),
        "after" => writeln!(out, "  {from} -.->|\"{}\"| {to}", mermaid_text(&words(edge))),
        "barrier" => writeln!(out, "  {from} ==>|\"{}\"| {to}", mermaid_text(&words(edge))),
        _ => writeln!(out, "  {from} -->|\"{}\"| {to}", mermaid_text(&words(edge))),
    }
}

/// Escapes text for a quoted label: everything special to Mermaid or its Markdown becomes an entity.
fn mermaid_text(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || c == ' ' || c == '/' || c == '_';
    let one = |c: char| if plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) };
    escape::line(text).chars().map(one).collect()
}

fn recipes(chart: &DependencyChart) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for step in &chart.steps {
        if !names.contains(&step.recipe.as_str()) {
            names.push(&step.recipe);
        }
    }
    names
}

fn of_recipe<'c>(chart: &'c DependencyChart, recipe: &'c str) -> impl Iterator<Item = (usize, &'c ChartStep)> {
    chart.steps.iter().enumerate().filter(move |(_, step)| step.recipe == recipe)
}

/// Returns the lines of a label: name, kind and other traits.
fn label(step: &ChartStep) -> Vec<String> {
    let mut lines = vec![step.step.clone(), super::words::step_traits(step).join(", ")];
    if !step.effective_by.is_empty() {
        lines.push(format!("effective by {}", super::words::either(&step.effective_by)));
    }
    lines
}

fn words(edge: &ChartEdge) -> String {
    let least = edge.least.as_ref().map_or_else(String::new, |least| format!(" on {least} of the selected hosts"));
    let why = if edge.why == "barrier" { "needs" } else { edge.why };
    format!("{why} {}{least}", edge.phase.name())
}

/// Returns the box of an end that is a whole recipe.
fn cluster(chart: &DependencyChart, end: &ChartEndpoint) -> Option<usize> {
    end.step.is_none().then(|| recipes(chart).iter().position(|recipe| *recipe == end.recipe)).flatten()
}

fn first(chart: &DependencyChart, end: &ChartEndpoint) -> Option<usize> {
    chart.steps.iter().position(|step| end.holds(step))
}

fn last(chart: &DependencyChart, end: &ChartEndpoint) -> Option<usize> {
    chart.steps.iter().rposition(|step| end.holds(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_leave_their_quotes() {
        assert_eq!(dot_text("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
        assert_eq!(dot_text("\u{1b}[2J"), r#""\\x1b[2J""#);
        assert_eq!(mermaid_text("a\"]<b>`#1. x-y"), "a#34;#93;#60;b#62;#96;#35;1#46; x#45;y");
    }
}
