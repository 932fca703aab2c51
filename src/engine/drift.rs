//! Drift: what is declared, judged once from one observation by sessions that take probes only. Nothing is changed.

use super::observe::Observed;
use super::run::Options;
use super::verify::{inputs, plan};
use crate::config::Project;
use crate::drift::{self, Drift, VERSION};

/// Tells what is not as declared, and why.
pub fn drift(project: &Project, observed: &Observed, options: &Options) -> Drift {
    let plan = plan(project, observed, options);
    let now = (options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let found = drift::find(&inputs(project, observed, options), &plan, &observed.took_by, &now);
    Drift {
        version: VERSION,
        forge: env!("CARGO_PKG_VERSION").to_owned(),
        run: options.run.clone(),
        cluster: project.cluster.clone(),
        inventory: project.inventory.to_string(),
        time: now,
        simulated: plan.simulated,
        hosts: found.hosts,
        findings: found.findings,
        unknown: found.unknown,
        took: observed.took,
    }
}
