//! The reference page of a recipe, generated from its declarations.

use crate::config::{ParamDetails, RecipeDetails, RuleDetails, StepDetails, VerifyDetails};
use std::fmt::Write;

/// Returns the page as Markdown: summary, parameters, edges, rules, steps, verification, causes of failures.
pub fn render_recipe(page: &RecipeDetails) -> String {
    let line = &page.line;
    let mut out = format!("# `{}`\n\n{}.\n", line.name, line.summary);
    write_params(&mut out, &page.params);
    write_list(
        &mut out,
        "Uses",
        page.uses.iter().map(|used| format_use(&used.recipe, &used.with, used.when.as_deref())),
    );
    write_list(&mut out, "Needs", page.needs.iter().map(|edge| format!("`{edge}`")));
    write_list(&mut out, "After", page.after.iter().map(|edge| format!("`{edge}`")));
    write_list(&mut out, "Rules", page.rules.iter().map(format_rule));
    write_steps(&mut out, &page.steps);
    write_list(&mut out, "Verification", page.verify.iter().map(format_verify));
    write_table(
        &mut out,
        "Fails as",
        ["text", "cause"],
        page.fails_as.iter().map(|row| [format!("`{}`", row.text), row.cause.clone()]),
    );
    out
}

fn write_params(out: &mut String, params: &[ParamDetails]) {
    let rows = params.iter().map(|param| {
        let default = param.default.as_ref().map_or_else(|| "required".to_owned(), |value| format!("`{value}`"));
        [format!("`{}`", param.name), param.ty.clone(), default, param.doc.clone()]
    });
    write_table(out, "Parameters", ["parameter", "type", "default", "meaning"], rows);
}

fn write_steps(out: &mut String, steps: &[StepDetails]) {
    let rows = steps.iter().map(|step| {
        let kind = format!("[`{0}`](../kinds/{0}.md)", step.kind);
        let disruption = step.disruption.map_or_else(String::new, |disruption| disruption.to_string());
        [step.name.clone(), kind, step.when.as_ref().map_or_else(String::new, |when| format!("`{when}`")), disruption]
    });
    write_table(out, "Steps", ["step", "kind", "when", "disruption"], rows);
}

fn format_use(recipe: &str, with: &[String], when: Option<&str>) -> String {
    let with = if with.is_empty() { String::new() } else { format!(", with parameters {}", with.join(", ")) };
    let when = when.map_or_else(String::new, |when| format!(", when `{when}`"));
    format!("[`{recipe}`]({recipe}.md){with}{when}")
}

fn format_rule(rule: &RuleDetails) -> String {
    let warns = if rule.warns { "*Warns only:* " } else { "" };
    let accept = rule.accept.as_ref().map_or_else(String::new, |name| format!(" (`{name}` accepts it)"));
    format!("{warns}{}{}{accept}", cluster_prefix(rule.of_cluster), rule.otherwise)
}

fn format_verify(verify: &VerifyDetails) -> String {
    let when = verify.when.as_ref().map_or_else(String::new, |when| format!(", when `{when}`"));
    format!("{:?}: {}{}{when}", verify.level, cluster_prefix(verify.of_cluster), verify.name)
}

fn cluster_prefix(is: bool) -> &'static str {
    if is { "*Cluster scope:* " } else { "" }
}

/// Writes a list unless it is empty.
fn write_list(out: &mut String, head: &str, rows: impl Iterator<Item = String>) {
    let rows: Vec<String> = rows.collect();
    if !rows.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "\n## {head}\n\n");
        rows.iter().for_each(|row| out.push_str(&format!("- {row}\n")));
    }
}

fn write_table<const N: usize>(
    out: &mut String,
    head: &str,
    columns: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let rows: Vec<[String; N]> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let _ = write!(out, "\n## {head}\n\n| {} |\n|{}\n", columns.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells = row.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}
