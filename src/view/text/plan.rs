//! Plans: changes, then blocked and unknown steps, then the summary.

use super::{TextWriter, closing, group, host_values, sections, step, windows};
use crate::plan::{Plan, PlanCounts, StepPlan};
use crate::view::escape;
use std::io::{self, Write};

/// Writes the whole plan.
pub fn write(text: &TextWriter, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let counts = plan.counts();
    let verbose = text.verbose > 0;
    super::simulated(&plan.simulated, out)?;
    if verbose || !closing::settled(&counts) {
        header(plan, out)?;
    }
    changes(plan, verbose, out)?;
    windows::write(plan, out)?;
    sections::write(plan, &counts, verbose, out)?;
    if verbose {
        sections::as_declared(plan, out)?;
    }
    closing::write(plan, &counts, out)?;
    next(text, &counts, out)
}

fn header(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let hosts = crate::view::words::places_of(plan.hosts.iter().map(|host| &host.host));
    let (cluster, inventory) = (escape::line(&plan.cluster), escape::line(&plan.inventory));
    writeln!(out, "cluster {cluster}, {hosts}, declared in {inventory}\n")
}

fn changes(plan: &Plan, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for folded in host_values::fold_host_values(group::steps(plan, StepPlan::acts)) {
        step::write(&folded, verbose, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn next(text: &TextWriter, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    match counts.changing > counts.refused || counts.cluster_changing {
        true => text.next("apply", out),
        false => Ok(()),
    }
}
