//! The list of recipes, and one recipe in full.

use super::graph::fold_hosts;
use crate::config::{RecipeDetails, RecipeSummary, StepDetails};
use crate::view::style::{DIM, HEAD, paint};
use crate::view::{escape, formatting};
use std::io::{self, Write};

/// Writes one line per recipe: name, summary and origin.
pub fn write_recipes(recipes: &[RecipeSummary], out: &mut dyn Write) -> io::Result<()> {
    let width = recipes.iter().map(|recipe| recipe.name.chars().count()).max().unwrap_or(0);
    for recipe in recipes {
        let what = if recipe.stack { "stack: " } else { "" };
        let (name, summary) = (escape::escape_line(&recipe.name), escape::escape_line(&recipe.summary));
        writeln!(out, "{name:<width$}  {what}{summary}  {}", paint(DIM, format_source(recipe)))?;
    }
    writeln!(out, "\n{} {}", paint(HEAD, "recipes:"), recipes.len())
}

fn format_source(recipe: &RecipeSummary) -> String {
    let file = format_file(recipe);
    match recipe.hosts.is_empty() {
        true => format!("({file}; not applied)"),
        false => format!("({file}; on {})", formatting::summarize_hosts(recipe.hosts.iter())),
    }
}

fn format_file(recipe: &RecipeSummary) -> String {
    match (recipe.built_in, recipe.replaces) {
        (true, _) => "built-in".to_owned(),
        (false, true) => format!("{}, overrides the built-in recipe", escape::escape_line(&recipe.file)),
        (false, false) => escape::escape_line(&recipe.file).to_string(),
    }
}

/// Writes everything that a recipe declares.
pub fn write_recipe(page: &RecipeDetails, out: &mut dyn Write) -> io::Result<()> {
    let line = &page.line;
    writeln!(out, "{}  {}", paint(HEAD, escape::escape_line(&line.name)), escape::escape_line(&line.summary))?;
    let file = format_file(line);
    let hosts = match line.hosts.is_empty() {
        true => "not applied to any host".to_owned(),
        false => format!("applied to {}", escape::escape_line(&fold_hosts(&line.hosts))),
    };
    writeln!(out, "{}", paint(DIM, format!("{file}, {hosts}")))?;
    write_section(
        "parameters",
        page.params.iter().map(|param| {
            let default = match &param.default {
                Some(value) => format!("default {}", super::explain::format_value(value)),
                None => "required".to_owned(),
            };
            (format!("{}: {}, {default}", param.name, param.ty), vec![param.doc.clone()])
        }),
        out,
    )?;
    write_section("needs", page.needs.iter().map(|edge| (edge.clone(), vec![])), out)?;
    write_section("after", page.after.iter().map(|edge| (edge.clone(), vec![])), out)?;
    write_section(
        "rules",
        page.rules.iter().map(|rule| {
            let when = rule.when.as_ref().map_or_else(String::new, |when| format!(" when {when}"));
            (
                format!("{}{when}{}", rule.require, if rule.of_cluster { " (scope cluster)" } else { "" }),
                [
                    Some(format!("{}: {}", if rule.warns { "otherwise warns" } else { "otherwise" }, rule.otherwise)),
                    rule.accept.as_ref().map(|name| format!("accepted with a reason in `{name}`")),
                ]
                .into_iter()
                .flatten()
                .collect(),
            )
        }),
        out,
    )?;
    write_section(
        "uses",
        page.uses.iter().map(|used| {
            let when = used.when.as_ref().map_or_else(String::new, |when| format!(" when {when}"));
            let with = if used.with.is_empty() { String::new() } else { format!("passes {}", used.with.join(", ")) };
            (format!("{}{when}", used.recipe), vec![with])
        }),
        out,
    )?;
    write_section("steps", page.steps.iter().map(|step| (format_step_head(step), list_step_details(step))), out)?;
    write_section(
        "verification",
        page.verify.iter().map(|verify| {
            let when = verify.when.as_ref().map_or_else(String::new, |when| format!("when {when}"));
            let scope = if verify.of_cluster { ", scope cluster" } else { "" };
            (format!("{} ({:?}, by {}{scope})", verify.name, verify.level, verify.by), vec![when])
        }),
        out,
    )?;
    write_section("fails as", page.fails_as.iter().map(|row| (row.text.clone(), vec![row.cause.clone()])), out)
}

/// Writes a section unless it is empty. Empty details are omitted.
fn write_section(head: &str, rows: impl Iterator<Item = (String, Vec<String>)>, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        writeln!(out, "\n{}", paint(HEAD, head))?;
    }
    for (row, details) in rows {
        writeln!(out, "  {}", escape::escape_line(&row))?;
        let said = details.iter().filter(|detail| !detail.is_empty());
        said.into_iter().try_for_each(|detail| writeln!(out, "    {}", paint(DIM, escape::escape_line(detail))))?;
    }
    Ok(())
}

fn format_step_head(step: &StepDetails) -> String {
    let mut traits = vec![step.kind.to_owned()];
    traits.extend((step.scope != Default::default()).then(|| format!("scope {}", step.scope.name())));
    traits.extend(step.disruption.map(|disruption| disruption.to_string()));
    format!("{} ({})", step.name, traits.join(", "))
}

fn list_step_details(step: &StepDetails) -> Vec<String> {
    let list = |head: &str, items: &[String]| match items.is_empty() {
        true => String::new(),
        false => format!("{head} {}", items.join(", ")),
    };
    let exports: Vec<String> = step
        .exports
        .iter()
        .map(|export| format!("{}{}", export.name, if export.secret { " (secret)" } else { "" }))
        .collect();
    vec![
        step.when.as_ref().map_or_else(String::new, |when| format!("when {when}")),
        step.each.as_ref().map_or_else(String::new, |each| format!("each {each}")),
        list("needs", &step.needs),
        list("after", &step.after),
        list("restarts on", &step.restart_on),
        list("effective by", &step.effective_by),
        list("provides", &step.provides),
        list("exports", &exports),
    ]
}
