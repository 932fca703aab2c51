//! The dependency graph as waves of steps that can run in parallel, with the dependencies of each step.

use super::TextWriter;
use crate::config::{ChartEdge, ChartStep, DependencyChart};
use crate::graph::DependencyKind;
use crate::model::HostName;
use crate::view::style::{DIM, HEAD, paint};
use crate::view::{escape, fold, format_count, formatting};
use std::io::{self, Write};

/// Writes the waves and the summary. `-v` also shows the order within recipes.
pub fn write_graph(text: &TextWriter, chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
    let width = chart.steps.iter().map(|step| format_step_name(step).chars().count()).max().unwrap_or(0);
    for (at, wave) in chart.waves.iter().enumerate() {
        writeln!(out, "{}", paint(HEAD, format!("wave {}", at + 1)))?;
        let steps = wave.iter().filter_map(|index| chart.steps.get(*index));
        steps.into_iter().try_for_each(|step| write_step(text, chart, step, width, out))?;
    }
    let recipes: std::collections::BTreeSet<&str> = chart.steps.iter().map(|step| step.recipe.as_str()).collect();
    let (steps, waves) = (format_count(chart.steps.len(), "step"), format_count(chart.waves.len(), "wave"));
    let (recipes, hosts) = (format_count(recipes.len(), "recipe"), formatting::summarize_hosts(chart.hosts.iter()));
    writeln!(out, "\n{} {steps} of {recipes} in {waves}, {hosts}", paint(HEAD, "graph:"))
}

fn format_step_name(step: &ChartStep) -> String {
    escape::escape_line(&format!("{}/{}", step.recipe, step.step)).into_owned()
}

fn write_step(
    text: &TextWriter,
    chart: &DependencyChart,
    step: &ChartStep,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut parts = vec![formatting::list_step_traits(step).join(", ")];
    if !step.effective_by.is_empty() {
        parts.push(format!("effective by {}", formatting::join_with_or(&step.effective_by)));
    }
    let hosts = format_step_hosts(chart, step);
    writeln!(
        out,
        "  {:<width$}  {}  {}",
        format_step_name(step),
        escape::escape_line(&parts.join("; ")),
        paint(DIM, hosts)
    )?;
    // Dependencies of a whole recipe are shown at its first step.
    let first = chart.steps.iter().find(|other| other.recipe == step.recipe) == Some(step);
    let edges = chart.edges.iter().filter(|edge| edge.to.contains_step(step) && (first || edge.to.step.is_some()));
    edges
        .filter(|edge| text.verbose > 0 || edge.why != DependencyKind::Order)
        .try_for_each(|edge| write_dependency(edge, out))
}

fn write_dependency(edge: &ChartEdge, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "    {}", paint(DIM, escape::escape_line(&formatting::describe_dependency(edge))))
}

fn format_step_hosts(chart: &DependencyChart, step: &ChartStep) -> String {
    let mut parts = Vec::new();
    match step.hosts.len() {
        0 => {}
        _ if step.hosts.iter().all(HostName::is_cluster) => parts.push("through the cluster's API".to_owned()),
        n if n == chart.hosts.iter().filter(|host| !host.is_cluster()).count() => parts.push("on all hosts".to_owned()),
        _ => parts.push(format!("on {}", fold_hosts(&step.hosts))),
    }
    if !step.removed.is_empty() {
        let order = if step.hosts.is_empty() { "" } else { "in reverse order " };
        parts.push(format!("removed {order}from {}", fold_hosts(&step.removed)));
    }
    escape::escape_line(&parts.join(", ")).into_owned()
}

pub(super) fn fold_hosts(hosts: &[HostName]) -> String {
    fold::fold_names(hosts.iter().map(HostName::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StepScope;

    #[test]
    fn cluster_api_is_not_counted_as_a_host() {
        let hosts = ["a", "b"].map(HostName::new).to_vec();
        let step = ChartStep {
            recipe: "base".into(),
            step: "motd".into(),
            kind: "file",
            scope: StepScope::default(),
            disruption: None,
            effective_by: Vec::new(),
            hosts: hosts.clone(),
            removed: Vec::new(),
            place: String::new(),
        };
        let all = [hosts, vec![HostName::cluster_api()]].concat();
        let chart = DependencyChart {
            cluster: "lab".into(),
            hosts: all,
            steps: vec![step],
            edges: Vec::new(),
            waves: vec![vec![0]],
        };
        let mut out = Vec::new();
        write_graph(&TextWriter::default(), &chart, &mut out).unwrap();
        let shown = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert!(shown.contains("  file  on all hosts\n"), "{shown}");
        assert!(shown.ends_with("graph: 1 step of 1 recipe in 1 wave, 2 hosts and the cluster\n"), "{shown}");
    }
}
