//! A plan as Markdown for a review comment: equal changes once, diffs in collapsed sections.
//!
//! Architecture Invariant: the page never exceeds the limit of a comment, and no text of a host acts as markup.

pub(super) mod page;

use super::text::host_values::{self, FoldedStep};
use super::text::{closing, group, sections, step, windows};
use super::{count, fold::fold, words};
use crate::model::{DisruptionClass, HostName};
use crate::plan::{ChangeCertainty, Plan, StepPlan};
use crate::resource::AttributeChange;
use page::{MarkdownPage, block, code, prose, span, whole_block};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum characters of a name.
const NAME: usize = 80;
/// Maximum characters of a value or a reason.
const VALUE: usize = 300;

/// Writes a plan for a review. `digest` is the digest of the saved plan's file.
pub fn plan(plan: &Plan, digest: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage::default();
    page.part("heading", &[heading(plan), heading_alone(plan)]);
    page.part("summary", &[summary(plan, digest)?]);
    page.part("window", &[folded("Windows, waves and reboots", &told(|out| windows::write(plan, out))?)]);
    let rest = rest(plan)?;
    page.reserve(rest.len() + 1);
    for folded in host_values::fold_host_values(group::steps(plan, StepPlan::acts)) {
        page.part("change", &[change(&folded, true), change(&folded, false)]);
    }
    page.reserve(0);
    page.part("section", &[rest]);
    out.write_all(page.finish("The saved plan is complete: run `forge show FILE`.").as_bytes())
}

/// Lists waiting, blocked, unknown and unreachable items. Diffs are cut before this section is. A section that would
/// fill half of the page is replaced by counts.
fn rest(plan: &Plan) -> io::Result<String> {
    let whole = told(|out| sections::write(plan, &plan.counts(), false, out))?;
    let head = "Waiting, blocked, unknown and unreachable";
    let form = |text: &str| folded(head, text);
    Some(form(&whole))
        .filter(|whole| whole.len() <= page::LIMIT / 2)
        .map_or_else(|| Ok(form(&sections::sums(plan))), Ok)
}

/// Returns the first line: the counts, and the names of everything unknown.
fn heading(plan: &Plan) -> String {
    let unknown = unknown(plan);
    match unknown.is_empty() {
        true => format!("### forge plan: {}, nothing unknown\n\n", sums(plan)),
        false => format!(
            "### forge plan: {}, {} unknown (?): {}\n\n",
            sums(plan),
            plan.unknown().len(),
            words::some(&unknown)
        ),
    }
}

fn heading_alone(plan: &Plan) -> String {
    format!("### forge plan: {}, {} unknown (?)\n\n", sums(plan), plan.unknown().len())
}

fn sums(plan: &Plan) -> String {
    let counts = plan.counts();
    let all = words::places_of(plan.hosts.iter().map(|host| &host.host));
    let blocked = if counts.blocked > 0 { format!(", {} blocked", counts.blocked) } else { String::new() };
    match counts.change {
        0 => format!("no changes on {all}{blocked}"),
        some => format!("{} on {}{blocked}", count(some, "change"), words::changing_places(&counts)),
    }
}

/// Returns the names of everything unknown, equal items once.
fn unknown(plan: &Plan) -> Vec<String> {
    let steps = group::steps(plan, StepPlan::is_open).into_iter();
    let steps = steps.map(|group| format!("{} on {}", span(&group.step.id.to_string(), NAME), hosts(&group.hosts)));
    let open = plan.hosts.iter().flat_map(|host| host.verify.iter().map(move |verify| (&host.host, verify)));
    let open = open.filter(|(_, verify)| verify.verdict == crate::model::StepVerdict::Unknown);
    let verify = group::equal(open, |verify| (&verify.recipe, &verify.name)).into_values();
    let verify = verify.map(|(verify, on)| format!("verification {} on {}", span(&verify.name, NAME), hosts(&on)));
    let silent: Vec<&HostName> = plan
        .hosts
        .iter()
        .filter(|host| host.reach != crate::plan::HostReachability::Observed)
        .map(|host| &host.host)
        .collect();
    let silent = (!silent.is_empty()).then(|| format!("all of {}", hosts(&silent)));
    silent.into_iter().chain(steps).chain(verify).collect()
}

fn hosts(hosts: &[&HostName]) -> String {
    span(&folded_names(hosts), NAME)
}

fn folded_names(hosts: &[&HostName]) -> String {
    fold(hosts.iter().map(|host| host.as_str()))
}

/// Returns the summary: counts, maximum disruption, cluster and versions.
fn summary(plan: &Plan, digest: Option<&str>) -> io::Result<String> {
    let mut lines = String::new();
    if !plan.simulated.is_empty() {
        let names: Vec<&HostName> = plan.simulated.iter().collect();
        lines += &format!("> **Simulated, no real hardware:** {}\n\n", hosts(&names));
    }
    let sums = told(|out| closing::write(plan, &plan.counts(), out))?;
    lines += &format!("{}\n\n", sums.trim());
    let most = plan.hosts.iter().map(crate::plan::HostPlan::at_most).max().unwrap_or_default();
    if most > DisruptionClass::D0 {
        lines += &format!("**Disruption, at most {most}:** {}\n\n", most.meaning());
    }
    let (cluster, inventory) = (span(&plan.cluster, NAME), span(&plan.inventory, NAME));
    let kept = match digest {
        Some(digest) => format!("saved plan {}", span(digest, NAME)),
        None => format!("plan {}", span(&plan.id, NAME)),
    };
    lines += &format!("Cluster {cluster}, declared in {inventory}; {kept}, forge {}\n\n", span(&plan.forge, NAME));
    Ok(lines)
}

/// Returns the output of a section of the text writer without colours.
fn told(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<String> {
    let mut out = Vec::new();
    write(&mut out)?;
    Ok(anstream::adapter::strip_str(&String::from_utf8_lossy(&out)).to_string())
}

fn folded(head: &str, body: &str) -> String {
    match body.trim().is_empty() {
        true => String::new(),
        false => {
            format!("<details><summary>{head}</summary>\n\n{}\n</details>\n\n", whole_block("text", body.trim_end()))
        }
    }
}

/// Returns one change for all hosts on which it is equal, with a collapsed diff if `whole`, else as one line.
fn change(folded: &FoldedStep<'_>, whole: bool) -> String {
    match whole {
        true => format!(
            "<details><summary>{}</summary>\n\n{}\n</details>\n\n",
            change_head(folded, &code, ["<strong>", "</strong>"]),
            body(folded)
        ),
        false => format!("- {}\n\n", change_head(folded, &span, ["**", "**"])),
    }
}

/// Returns the head of a change. `quote` quotes for the grammar at its place.
fn change_head(folded: &FoldedStep<'_>, quote: &dyn Fn(&str, usize) -> String, strong: [&str; 2]) -> String {
    let group = &folded.group;
    let step = group.step;
    let sign = match step.is_open() {
        true => "?",
        false => step::StepChangeKind::of_all(&step.changes).sign(),
    };
    let class = match step.disruption {
        DisruptionClass::D0 => String::new(),
        class => format!(" {}{class}{}", strong[0], strong[1]),
    };
    let what = format!("{} {}", quote(&step.kind, NAME), quote(step.title.raw(), NAME));
    let on = format!("{}: {}", words::places_of(group.hosts.iter().copied()), quote(&folded_names(&group.hosts), NAME));
    let values = if folded.values.is_empty() { "" } else { ", with host-specific values" };
    format!("{} {what}{class} on {on}{values}", quote(sign, NAME))
}

fn body(folded: &FoldedStep<'_>) -> String {
    let step = folded.group.step;
    let mut out = format!("{}: {}\n\n", span(&step.id.to_string(), NAME), prose(step.reason.raw(), VALUE));
    step.changes.iter().for_each(|change| attribute(change, &mut out));
    if let Some(envelope) = step.envelope.as_ref().filter(|envelope| envelope.foresight != ChangeCertainty::Certain) {
        let most = envelope.disruption.max(step.disruption);
        let until = prose(envelope.until.raw(), VALUE);
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "- ? at most {most}, evaluated again after {until}");
    }
    let _ = writeln!(out, "- declared at {}", span(&step.place, VALUE));
    let values = folded.describe_values(false);
    if !values.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "\n{}", block("text", &values.join("\n")));
    }
    out
}

fn attribute(change: &AttributeChange, out: &mut String) {
    let name = span(&change.attribute, NAME);
    // Writing to a `String` cannot fail.
    let _ = match (&change.diff, &change.from, &change.to) {
        _ if change.secret => writeln!(out, "- {name}: (secret, not shown)"),
        (Some(diff), ..) => writeln!(out, "- {name}:\n\n{}", block("diff", diff.raw())),
        (None, Some(from), Some(to)) => {
            writeln!(out, "- {name}: {} → {}", span(from.raw(), VALUE), span(to.raw(), VALUE))
        }
        (None, Some(one), None) => writeln!(out, "- {name}: {} is removed", span(one.raw(), VALUE)),
        (None, None, Some(one)) => writeln!(out, "- {name}: {}", span(one.raw(), VALUE)),
        (None, None, None) => writeln!(out, "- {name}"),
    };
}

#[cfg(test)]
pub(in crate::view) mod tests;
