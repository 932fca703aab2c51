//! The dependency graph as DOT and Mermaid, with labels escaped for each grammar.

use super::escape;
use crate::config::{ChartEdge, ChartEndpoint, ChartStep, DependencyChart};
use crate::graph::DependencyKind;
use std::io::{self, Write};

/// Writes the chart for Graphviz. Edges between whole recipes connect their boxes.
pub fn write_dot(chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph {} {{", quote_dot(&chart.cluster))?;
    writeln!(out, "  compound=true; rankdir=LR; node [shape=box];")?;
    for (at, recipe) in list_recipes(chart).iter().enumerate() {
        writeln!(out, "  subgraph cluster_{at} {{\n    label={};", quote_dot(recipe))?;
        for (index, step) in steps_of_recipe(chart, recipe) {
            writeln!(out, "    s{index} [label={}];", quote_dot(&step_label(step).join("\n")))?;
        }
        writeln!(out, "  }}")?;
    }
    chart.edges.iter().try_for_each(|edge| write_dot_edge(chart, edge, out))?;
    writeln!(out, "}}")
}

fn write_dot_edge(chart: &DependencyChart, edge: &ChartEdge, out: &mut dyn Write) -> io::Result<()> {
    let (Some(from), Some(to)) = (last_step_index(chart, &edge.from), first_step_index(chart, &edge.to)) else {
        return Ok(());
    };
    let mut attributes = match edge.why {
        DependencyKind::Order => vec!["style=dotted".to_owned()],
        DependencyKind::After => vec![format!("label={}, style=dashed", quote_dot(&edge_label(edge)))],
        DependencyKind::Barrier => vec![format!("label={}, style=bold", quote_dot(&edge_label(edge)))],
        _ => vec![format!("label={}", quote_dot(&edge_label(edge)))],
    };
    attributes.extend(recipe_box_index(chart, &edge.from).map(|at| format!("ltail=cluster_{at}")));
    attributes.extend(recipe_box_index(chart, &edge.to).map(|at| format!("lhead=cluster_{at}")));
    writeln!(out, "  s{from} -> s{to} [{}];", attributes.join(", "))
}

/// Returns a quoted DOT string.
fn quote_dot(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| escape::escape_line(line).replace('\\', "\\\\")).collect();
    format!("\"{}\"", lines.join("\\n").replace('"', "\\\""))
}

/// Writes the chart as a Mermaid flowchart.
pub fn write_mermaid(chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "flowchart LR")?;
    for (at, recipe) in list_recipes(chart).iter().enumerate() {
        writeln!(out, "  subgraph r{at}[\"{}\"]", escape_mermaid(recipe))?;
        for (index, step) in steps_of_recipe(chart, recipe) {
            let lines: Vec<String> = step_label(step).iter().map(|line| escape_mermaid(line)).collect();
            writeln!(out, "    s{index}[\"{}\"]", lines.join("<br/>"))?;
        }
        writeln!(out, "  end")?;
    }
    chart.edges.iter().try_for_each(|edge| write_mermaid_edge(chart, edge, out))
}

fn write_mermaid_edge(chart: &DependencyChart, edge: &ChartEdge, out: &mut dyn Write) -> io::Result<()> {
    let end = |end: &ChartEndpoint, step: Option<usize>| match recipe_box_index(chart, end) {
        Some(at) => Some(format!("r{at}")),
        None => step.map(|at| format!("s{at}")),
    };
    let (from, to) =
        (end(&edge.from, last_step_index(chart, &edge.from)), end(&edge.to, first_step_index(chart, &edge.to)));
    let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
    match edge.why {
        DependencyKind::Order => writeln!(out, "  {from} --> {to}"),
        DependencyKind::After => writeln!(out, "  {from} -.->|\"{}\"| {to}", escape_mermaid(&edge_label(edge))),
        DependencyKind::Barrier => writeln!(out, "  {from} ==>|\"{}\"| {to}", escape_mermaid(&edge_label(edge))),
        _ => writeln!(out, "  {from} -->|\"{}\"| {to}", escape_mermaid(&edge_label(edge))),
    }
}

/// Escapes text for a quoted label: everything special to Mermaid or its Markdown becomes an entity.
fn escape_mermaid(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || c == ' ' || c == '/' || c == '_';
    let one = |c: char| if plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) };
    escape::escape_line(text).chars().map(one).collect()
}

fn list_recipes(chart: &DependencyChart) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for step in &chart.steps {
        if !names.contains(&step.recipe.as_str()) {
            names.push(&step.recipe);
        }
    }
    names
}

fn steps_of_recipe<'c>(chart: &'c DependencyChart, recipe: &'c str) -> impl Iterator<Item = (usize, &'c ChartStep)> {
    chart.steps.iter().enumerate().filter(move |(_, step)| step.recipe == recipe)
}

/// Returns the lines of a label: name, kind and other traits.
fn step_label(step: &ChartStep) -> Vec<String> {
    let mut lines = vec![step.step.clone(), super::formatting::list_step_traits(step).join(", ")];
    if !step.effective_by.is_empty() {
        lines.push(format!("effective by {}", super::formatting::join_with_or(&step.effective_by)));
    }
    lines
}

fn edge_label(edge: &ChartEdge) -> String {
    let least = edge.least.as_ref().map_or_else(String::new, |least| format!(" on {least} of the selected hosts"));
    let why = if edge.why == DependencyKind::Barrier { DependencyKind::Needs } else { edge.why }.name();
    format!("{why} {}{least}", edge.phase.name())
}

/// Returns the box of an end that is a whole recipe.
fn recipe_box_index(chart: &DependencyChart, end: &ChartEndpoint) -> Option<usize> {
    end.step.is_none().then(|| list_recipes(chart).iter().position(|recipe| *recipe == end.recipe)).flatten()
}

fn first_step_index(chart: &DependencyChart, end: &ChartEndpoint) -> Option<usize> {
    chart.steps.iter().position(|step| end.contains_step(step))
}

fn last_step_index(chart: &DependencyChart, end: &ChartEndpoint) -> Option<usize> {
    chart.steps.iter().rposition(|step| end.contains_step(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_and_mermaid_labels_are_escaped() {
        assert_eq!(quote_dot("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
        assert_eq!(quote_dot("\u{1b}[2J"), r#""\\x1b[2J""#);
        assert_eq!(escape_mermaid("a\"]<b>`#1. x-y"), "a#34;#93;#60;b#62;#96;#35;1#46; x#45;y");
    }
}
