//! Outliers: similar hosts are compared with their majority, even if nothing is declared.
//!
//! Hosts are similar if they have the same hardware (the vendor's product and board, GPU models) and the inventory
//! treats them the same: the same entries of `apply`. A majority is more than half of all hosts of such a class,
//! including hosts whose value is unknown, and a class has at least three hosts. Unknown values are counted but are
//! never outliers.

mod host_classes;
mod majority_vote;
mod report;

pub use report::{
    FactOutlier, HostClass, MIN_CLASS_SIZE, OutlierCandidate, OutlierReport, OutlierValue, UndecidedFact,
    UnknownHostFact,
};

/// Returns the facts that a comparison reads.
pub fn compared_facts() -> impl Iterator<Item = &'static str> {
    super::all_facts().iter().filter(|fact| !fact.alike.is_empty()).map(|fact| fact.name)
}

/// Compares hosts, given in inventory order, with the majority of their class.
pub fn find_outliers(hosts: &[OutlierCandidate<'_>]) -> OutlierReport {
    let sorted = host_classes::classify_hosts(hosts);
    let mut outliers = OutlierReport { alone: sorted.alone, unknown: sorted.unknown, ..OutlierReport::default() };
    for (class, members) in sorted.classes {
        let index = outliers.classes.len();
        outliers.classes.push(class);
        majority_vote::compare_class(index, &members, &mut outliers);
    }
    let OutlierReport { classes, odd, .. } = &mut outliers;
    // Compares ratios by cross-multiplication: few of many come before few of few. Equal ratios keep the order of class
    // and fact.
    odd.sort_by(|a, b| {
        let size = |odd: &FactOutlier| classes[odd.class].hosts.len();
        (a.count_differing() * size(b)).cmp(&(b.count_differing() * size(a)))
    });
    outliers
}

#[cfg(test)]
mod tests;
