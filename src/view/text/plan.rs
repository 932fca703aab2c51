//! Plans: changes, then blocked and unknown steps, then the summary.

use super::host_values::FoldedStep;
use super::{TextWriter, group, item_fold, plan_sections, plan_summary, step, windows};
use crate::model::map_large_parallel;
use crate::plan::{Plan, PlanCounts, StepPlan};
use crate::view::escape;
use std::io::{self, Write};

/// The changes of so many hosts are written on all cores.
const MANY_HOSTS: usize = 1000;

/// Writes the whole plan.
pub fn write_plan(text: &TextWriter, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let counts = plan.count_steps();
    let verbose = text.verbose > 0;
    super::shared_lines::write_simulated(&plan.simulated, out)?;
    if verbose || !plan_summary::is_settled(&counts) {
        write_header(plan, out)?;
    }
    write_changes(plan, verbose, out)?;
    windows::write_windows(plan, out)?;
    plan_sections::write_sections(plan, &counts, verbose, out)?;
    if verbose {
        plan_sections::write_unchanged_steps(plan, out)?;
    }
    plan_summary::write_summary(plan, &counts, out)?;
    write_next_step(text, &counts, out)
}

fn write_header(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let hosts = crate::view::formatting::summarize_hosts(plan.hosts.iter().map(|host| &host.host));
    let (cluster, inventory) = (escape::escape_line(&plan.cluster), escape::escape_line(&plan.inventory));
    writeln!(out, "cluster {cluster}, {hosts}, declared in {inventory}\n")
}

fn write_changes(plan: &Plan, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let folded = item_fold::fold_steps(group::group_steps(plan, StepPlan::will_run));
    if plan.hosts.len() < MANY_HOSTS {
        return folded.iter().try_for_each(|step| write_change(step, verbose, out));
    }
    // The names of many hosts take long to fold.
    let texts = map_large_parallel(&folded, |step| {
        let mut text = Vec::new();
        write_change(step, verbose, &mut text).map(|()| text)
    });
    texts.into_iter().try_for_each(|text| out.write_all(&text?))
}

fn write_change(folded: &FoldedStep<'_>, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    step::write_step(folded, verbose, out)?;
    writeln!(out)
}

fn write_next_step(text: &TextWriter, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    match counts.changing > counts.refused || counts.cluster_changing {
        true => text.write_next_command("apply", out),
        false => Ok(()),
    }
}
