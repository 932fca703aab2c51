//! Determines the facts that a project reads.

use std::collections::BTreeSet;

/// Returns the names of the facts to probe: those that the project's templates read and those that tell hosts apart.
/// Returns all facts if the templates' reads cannot be determined beforehand.
pub fn list_facts_used(project: &crate::config::Project) -> BTreeSet<String> {
    let read = project.collect_read_facts();
    let always = |name: &str| matches!(name, "identity" | "boot" | "simulated");
    let used = |name: &&str| always(name) || read.as_ref().is_none_or(|read| read.contains(*name));
    crate::facts::fact_names().filter(used).map(str::to_owned).collect()
}
