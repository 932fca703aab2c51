//! A plan as Markdown for a review comment: equal changes once, diffs in collapsed sections.
//!
//! Architecture Invariant: the page never exceeds the limit of a comment, and no text of a host acts as markup.

pub(super) mod page;
mod rehearsal;

pub use rehearsal::write_rehearsal;

use super::text::check_output::CheckOutput;
use super::text::host_values::FoldedStep;
use super::text::item_fold;
use super::text::{group, plan_sections, plan_summary, step, windows};
use super::{fold::fold_names, format_count, formatting};
use crate::model::{DisruptionClass, HostName};
use crate::plan::{ChangeCertainty, Plan, StepPlan};
use crate::resource::AttributeChange;
use page::{MarkdownPage, code_block, code_span, html_code, prose_span, uncut_code_block};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum characters of a name.
const NAME: usize = 80;
/// Maximum characters of a value or a reason.
const MAX_VALUE_CHARS: usize = 300;

/// Writes a plan for a review. `digest` is the digest of the saved plan's file, `recordings` describes the recordings that the
/// plan is from.
pub fn write_plan(plan: &Plan, digest: Option<&str>, recordings: &[String], out: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage::default();
    page.push_section("heading", &[render_heading(plan), render_short_heading(plan)]);
    page.push_section("recordings", &[render_recordings(recordings)]);
    page.push_section("summary", &[render_summary(plan, digest)?]);
    page.push_section(
        "window",
        &[details_block("Windows, waves and reboots", &render_plain(|out| windows::write_windows(plan, out))?)],
    );
    let rest = render_remaining_sections(plan)?;
    page.reserve(rest.len() + 1);
    for folded in item_fold::fold_steps(group::group_steps(plan, StepPlan::will_run)) {
        page.push_section("change", &[render_change(&folded, true), render_change(&folded, false)]);
    }
    page.reserve(0);
    page.push_section("section", &[rest]);
    out.write_all(page.finish("The saved plan is complete: run `forge show FILE`.").as_bytes())
}

/// Lists waiting, blocked, unknown and unreachable items. Diffs are cut before this section is. A section that would
/// fill half of the page is replaced by counts.
fn render_remaining_sections(plan: &Plan) -> io::Result<String> {
    let whole = render_plain(|out| plan_sections::write_sections(plan, &plan.count_steps(), false, out))?;
    let head = "Waiting, blocked, unknown and unreachable";
    let form = |text: &str| details_block(head, text);
    Some(form(&whole))
        .filter(|whole| whole.len() <= page::MAX_PAGE_BYTES / 2)
        .map_or_else(|| Ok(form(&plan_sections::summarize_sections(plan))), Ok)
}

/// Returns the first line: the counts, and the names of everything unknown.
fn render_heading(plan: &Plan) -> String {
    let unknown = list_unknown(plan);
    match unknown.is_empty() {
        true => format!("### forge plan: {}, nothing unknown\n\n", summarize_changes(plan)),
        false => format!(
            "### forge plan: {}, {} unknown (?): {}\n\n",
            summarize_changes(plan),
            plan.list_unknowns().len(),
            formatting::list_names(&unknown)
        ),
    }
}

fn render_short_heading(plan: &Plan) -> String {
    format!("### forge plan: {}, {} unknown (?)\n\n", summarize_changes(plan), plan.list_unknowns().len())
}

fn summarize_changes(plan: &Plan) -> String {
    let counts = plan.count_steps();
    let blocked = if counts.blocked > 0 { format!(", {} blocked", counts.blocked) } else { String::new() };
    match counts.change {
        0 => match formatting::summarize_answers(plan.hosts.iter().map(|host| (&host.host, &host.reach))) {
            Some(observed) if counts.windows > 0 => format!("no step changes on {observed}{blocked}"),
            Some(observed) => format!("no changes on {observed}{blocked}"),
            None => "no host answered".to_owned(),
        },
        some => format!("{} on {}{blocked}", format_count(some, "change"), formatting::format_changing_hosts(&counts)),
    }
}

/// Returns the names of everything unknown, equal items once.
fn list_unknown(plan: &Plan) -> Vec<String> {
    let steps = group::group_steps(plan, StepPlan::is_undetermined).into_iter();
    let steps = steps.map(|group| {
        format!("{} on {}", code_span(&group.step.id.to_string(), NAME), code_span_of_hosts(&group.hosts))
    });
    let open = plan.hosts.iter().flat_map(|host| host.verify.iter().map(move |verify| (&host.host, verify)));
    let open = open.filter(|(_, verify)| verify.verdict == crate::model::StepVerdict::Unknown);
    let verify = group::group_equal(open, |verify| (&verify.recipe, &verify.name)).into_values();
    let verify = verify
        .map(|(verify, on)| format!("verification {} on {}", code_span(&verify.name, NAME), code_span_of_hosts(&on)));
    let silent: Vec<&HostName> = plan
        .hosts
        .iter()
        .filter(|host| host.reach != crate::plan::HostReachability::Observed)
        .map(|host| &host.host)
        .collect();
    let silent = (!silent.is_empty()).then(|| format!("all of {}", code_span_of_hosts(&silent)));
    silent.into_iter().chain(steps).chain(verify).collect()
}

fn code_span_of_hosts(hosts: &[&HostName]) -> String {
    code_span(&fold_hosts(hosts), NAME)
}

fn fold_hosts(hosts: &[&HostName]) -> String {
    fold_names(hosts.iter().map(|host| host.as_str()))
}

/// Returns a quotation that names recordings; empty without any.
pub(in crate::view) fn render_recordings(recordings: &[String]) -> String {
    let names: Vec<String> = recordings.iter().map(|line| code_span(line, MAX_VALUE_CHARS)).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("> **From recorded answers; no host was contacted:** {}\n\n", names.join(", ")),
    }
}

/// Returns the summary: counts, maximum disruption, cluster and versions.
fn render_summary(plan: &Plan, digest: Option<&str>) -> io::Result<String> {
    let mut lines = String::new();
    if !plan.simulated.is_empty() {
        let names: Vec<&HostName> = plan.simulated.iter().collect();
        lines += &format!("> **Simulated, no real hardware:** {}\n\n", code_span_of_hosts(&names));
    }
    let sums = render_plain(|out| plan_summary::write_summary(plan, &plan.count_steps(), out))?;
    lines += &format!("{}\n\n", sums.trim());
    let most = plan.hosts.iter().map(crate::plan::HostPlan::worst_case_disruption).max().unwrap_or_default();
    if most > DisruptionClass::D0 {
        lines += &format!("**Disruption, at most {most}:** {}\n\n", most.meaning());
    }
    let (cluster, inventory) = (code_span(&plan.cluster, NAME), code_span(&plan.inventory, NAME));
    let kept = match digest {
        Some(digest) => format!("saved plan {}", code_span(digest, NAME)),
        None => format!("plan {}", code_span(&plan.id, NAME)),
    };
    lines += &format!("Cluster {cluster}, declared in {inventory}; {kept}, forge {}\n\n", code_span(&plan.forge, NAME));
    Ok(lines)
}

/// Returns the output of a section of the text writer without colours.
fn render_plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<String> {
    let mut out = Vec::new();
    write(&mut out)?;
    Ok(anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string())
}

fn details_block(head: &str, body: &str) -> String {
    match body.trim().is_empty() {
        true => String::new(),
        false => {
            format!(
                "<details><summary>{head}</summary>\n\n{}\n</details>\n\n",
                uncut_code_block("text", body.trim_end())
            )
        }
    }
}

/// Returns one change for all hosts on which it is equal, with a collapsed diff if `whole`, else as one line.
fn render_change(folded: &FoldedStep<'_>, whole: bool) -> String {
    match whole {
        true => format!(
            "<details><summary>{}</summary>\n\n{}\n</details>\n\n",
            render_change_head(folded, &html_code, ["<strong>", "</strong>"]),
            render_change_body(folded)
        ),
        false => format!("- {}\n\n", render_change_head(folded, &code_span, ["**", "**"])),
    }
}

/// Returns the head of a change. `quote` quotes for the grammar at its place.
fn render_change_head(folded: &FoldedStep<'_>, quote: &dyn Fn(&str, usize) -> String, strong: [&str; 2]) -> String {
    let group = &folded.group;
    let step = group.step;
    let sign = match step.is_undetermined() {
        true => "?",
        false => step::StepChangeKind::from_changes(&step.changes).sign(),
    };
    let class = match step.disruption {
        DisruptionClass::D0 => String::new(),
        class => format!(" {}{class}{}", strong[0], strong[1]),
    };
    let what = format!("{} {}", quote(&step.kind, NAME), quote(step.title.raw(), NAME));
    let on = format!(
        "{}: {}",
        formatting::summarize_hosts(group.hosts.iter().copied()),
        quote(&fold_hosts(&group.hosts), NAME)
    );
    let values = if folded.values.is_empty() { "" } else { ", with host-specific values" };
    let items = match folded.items.len() {
        0 => String::new(),
        _ => format!(", and {}", format_count(folded.items.len() - 1, "more item")),
    };
    let undo = step.irreversible.as_ref().map(|_| format!(" ({})", formatting::describe_reversibility(step)));
    let undo = undo.unwrap_or_default();
    format!("{} {what}{items}{class}{undo} on {on}{values}", quote(sign, NAME))
}

fn render_change_body(folded: &FoldedStep<'_>) -> String {
    let step = folded.group.step;
    let mut out =
        format!("{}: {}\n\n", code_span(&step.id.to_string(), NAME), prose_span(step.reason.raw(), MAX_VALUE_CHARS));
    if let Some(printed) = folded.check_output() {
        out += &format_check_output(&printed);
    }
    step.changes.iter().for_each(|change| push_attribute(change, &mut out));
    if let Some(why) = &step.irreversible {
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(out, "- {}: {}", formatting::describe_reversibility(step), prose_span(why.raw(), MAX_VALUE_CHARS));
    }
    if let Some(envelope) = step.envelope.as_ref().filter(|envelope| envelope.foresight != ChangeCertainty::Certain) {
        let most = envelope.disruption.max(step.disruption);
        let until = prose_span(envelope.until.raw(), MAX_VALUE_CHARS);
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "- ? at most {most}, evaluated again after {until}");
    }
    if let Some(seconds) = step.guard_s {
        let _ = writeln!(out, "- {}", formatting::describe_guard(seconds));
    }
    if !step.place.is_empty() {
        let _ = writeln!(out, "- declared at {}", code_span(&step.place, MAX_VALUE_CHARS));
    }
    if let Some(items) = folded.describe_items() {
        let _ = writeln!(out, "- {}", prose_span(&items, MAX_VALUE_CHARS));
    }
    let values = folded.describe_values(false);
    if !values.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "\n{}", code_block("text", &values.join("\n")));
    }
    out
}

/// Returns what a failed check printed.
pub(super) fn format_check_output(printed: &CheckOutput<'_>) -> String {
    format!("- {}\n\n{}", printed.head(|host| code_span(host, NAME)), code_block("text", printed.text))
}

fn push_attribute(change: &AttributeChange, out: &mut String) {
    let name = code_span(&change.attribute, NAME);
    // Writing to a `String` cannot fail.
    let _ = match (&change.diff, &change.from, &change.to) {
        _ if change.secret => writeln!(out, "- {name}: (secret, not shown)"),
        (Some(diff), ..) => writeln!(out, "- {name}:\n\n{}", code_block("diff", diff.raw())),
        (None, Some(from), Some(to)) => {
            writeln!(
                out,
                "- {name}: {} → {}",
                code_span(from.raw(), MAX_VALUE_CHARS),
                code_span(to.raw(), MAX_VALUE_CHARS)
            )
        }
        (None, Some(one), None) => writeln!(out, "- {name}: {} is removed", code_span(one.raw(), MAX_VALUE_CHARS)),
        (None, None, Some(one)) => writeln!(out, "- {name}: {}", code_span(one.raw(), MAX_VALUE_CHARS)),
        (None, None, None) => writeln!(out, "- {name}"),
    };
}

#[cfg(test)]
pub(in crate::view) mod tests;
