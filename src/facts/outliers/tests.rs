//! Tests outliers with hosts that have a few facts.

use super::*;
use crate::facts::Facts;
use crate::model::{HostName, Value};
use crate::probe::UnansweredReason;
use proptest::prelude::*;
use serde_json::json;

fn build_facts(list: &[(&str, Value)]) -> Facts {
    let base = [("machine", json!({ "vendor": "V", "product": "P", "board": null })), ("gpus", json!([]))];
    let all = base.iter().chain(list).map(|(name, value)| match super::super::unknown_reason(value) {
        Some(why) => ((*name).to_owned(), Err(UnansweredReason::new(why))),
        None => ((*name).to_owned(), Ok(value.clone())),
    });
    Facts(all.collect())
}

fn find_among(hosts: &[Facts]) -> OutlierReport {
    let names: Vec<HostName> = (1..=hosts.len()).map(|n| HostName::new(format!("n{n}"))).collect();
    let candidate = |(host, facts)| OutlierCandidate { host, declared: String::new(), groups: &[], facts };
    find_outliers(&names.iter().zip(hosts).map(candidate).collect::<Vec<_>>())
}

/// Returns the outliers in short form: `path: common N; value hosts`.
fn format_outliers(outliers: &OutlierReport) -> Vec<String> {
    let value = |odd: &OutlierValue| {
        format!("; {} {}", odd.value, odd.hosts.iter().map(HostName::as_str).collect::<Vec<_>>().join(","))
    };
    let line = |odd: &FactOutlier| {
        format!("{}: {} {}{}", odd.path.raw(), odd.common, odd.hosts, odd.odd.iter().map(value).collect::<String>())
    };
    outliers.odd.iter().map(line).collect()
}

fn kernel_facts(release: &str) -> Facts {
    build_facts(&[("kernel", json!({ "release": release, "arch": "x86_64", "cmdline": "ro" }))])
}

#[test]
fn outlier_is_reported_with_its_value() {
    let outliers = find_among(&[kernel_facts("6.1"), kernel_facts("5.15"), kernel_facts("6.1"), kernel_facts("6.1")]);
    assert_eq!(format_outliers(&outliers), [r#"kernel.release: "6.1" 3; "5.15" n2"#]);
    assert_eq!(outliers.classes[0].hardware.raw(), "V, P");
}

#[test]
fn without_a_majority_the_field_is_undecided() {
    let outliers = find_among(&[kernel_facts("6.1"), kernel_facts("6.1"), kernel_facts("5.15"), kernel_facts("5.15")]);
    assert_eq!(format_outliers(&outliers), [""; 0]);
    let undecided = &outliers.undecided[0];
    assert_eq!((undecided.path.raw(), undecided.values, undecided.hosts), ("kernel.release", 2, 4));
}

#[test]
fn two_hosts_are_too_few_to_compare() {
    let outliers = find_among(&[kernel_facts("6.1"), kernel_facts("5.15")]);
    assert_eq!((outliers.classes.len(), outliers.alone[0].hosts.len(), outliers.compared), (0, 2, 0));
}

#[test]
fn unknown_value_is_neither_outlier_nor_majority() {
    let dark = || build_facts(&[("kernel", json!({ "unknown": "permission denied" }))]);
    let outliers = find_among(&[kernel_facts("6.1"), kernel_facts("6.1"), kernel_facts("6.1"), dark()]);
    assert_eq!(format_outliers(&outliers), [""; 0]);
    let untold = &outliers.unknown[0];
    assert_eq!((untold.path.raw(), untold.why.raw(), untold.hosts.len()), ("kernel", "permission denied", 1));
    // Two of three known values are not a majority of five.
    let outliers = find_among(&[kernel_facts("6.1"), kernel_facts("6.1"), kernel_facts("5.15"), dark(), dark()]);
    assert_eq!((format_outliers(&outliers).len(), outliers.undecided.len()), (0, 1));
    let outliers = find_among(&[dark(), dark(), dark()]);
    // Five values of the machine and one of its GPUs.
    assert_eq!((outliers.unknown.len(), outliers.unknown[0].hosts.len(), outliers.compared), (1, 3, 6));
}

#[test]
fn outlying_device_is_identified_by_its_key() {
    let gpu = |bdf: &str, width: u64| json!({ "bdf": bdf, "product": "H100 SXM", "device": "0x2330", "pcie": { "width": width } });
    let host = |gpus: Vec<Value>| build_facts(&[("gpus", gpus.into())]);
    let whole = || host(vec![gpu("a", 16), gpu("b", 16)]);
    let outliers = find_among(&[whole(), whole(), host(vec![gpu("a", 16), gpu("b", 8)])]);
    assert_eq!(format_outliers(&outliers), ["gpus[b].pcie.width: 16 2; 8 n3"]);
    // A host that lost one is similar to the others, and an outlier only in the set that it has.
    let outliers = find_among(&[whole(), whole(), host(vec![gpu("a", 16)])]);
    assert_eq!(format_outliers(&outliers), [r#"gpus: ["a","b"] 2; ["a"] n3"#]);
    assert_eq!(outliers.classes[0].hardware.raw(), "V, P, H100 SXM");
}

#[test]
fn entry_on_a_single_host_is_an_outlier() {
    let with = |modules: Value| build_facts(&[("modules", modules)]);
    let outliers = find_among(&[with(json!({})), with(json!({ "nouveau": {} })), with(json!({}))]);
    assert_eq!(format_outliers(&outliers), ["modules.nouveau: false 2; true n2"]);
}

#[test]
fn rarest_outlier_is_listed_first() {
    let host = |kernel: &str, model: &str| {
        build_facts(&[("kernel", json!({ "release": kernel })), ("cpu", json!({ "count": 1, "model": model }))])
    };
    let hosts = [host("a", "x"), host("a", "x"), host("a", "y"), host("b", "y"), host("a", "x")];
    assert_eq!(
        format_outliers(&find_among(&hosts)),
        [r#"kernel.release: "a" 4; "b" n4"#, r#"cpu.model: "x" 3; "y" n3,n4"#]
    );
}

#[test]
fn hosts_with_different_declarations_are_not_compared() {
    let (names, facts) = (
        ["a", "b", "c", "d"].map(HostName::new),
        [kernel_facts("1"), kernel_facts("1"), kernel_facts("1"), kernel_facts("2")],
    );
    let of = |(at, host): (usize, _)| OutlierCandidate {
        host,
        declared: (at == 3).to_string(),
        groups: &[],
        facts: &facts[at],
    };
    let outliers = find_outliers(&names.iter().enumerate().map(of).collect::<Vec<_>>());
    assert_eq!((outliers.odd.len(), outliers.alone[0].hosts.len()), (0, 1));
}

proptest! {
    /// Whatever hosts report: outliers are a minority, no host has both the common and an outlying value, and hosts
    /// with a single value produce no findings.
    #[test]
    fn majority_is_more_than_half_of_all_hosts(releases in prop::collection::vec(prop::option::of(0u8..3), 0..9)) {
        let host = |release: &Option<u8>| match release {
            Some(release) => kernel_facts(&release.to_string()),
            None => build_facts(&[("kernel", json!({ "unknown": "why" }))]),
        };
        let outliers = find_among(&releases.iter().map(host).collect::<Vec<_>>());
        for odd in &outliers.odd {
            prop_assert!(odd.hosts * 2 > releases.len() && odd.hosts + odd.count_differing() + odd.unknown == releases.len());
            prop_assert!(odd.odd.iter().all(|value| value.value != odd.common));
        }
        let told: std::collections::BTreeSet<_> = releases.iter().flatten().collect();
        prop_assert!(told.len() > 1 || outliers.odd.is_empty() && outliers.undecided.is_empty());
        let silent = releases.iter().filter(|release| release.is_none()).count();
        let counted: usize = outliers.unknown.iter().map(|untold| untold.hosts.len()).sum();
        prop_assert_eq!(counted, if releases.len() >= MIN_CLASS_SIZE { silent } else { 0 });
    }

    /// The order of the given hosts affects only the order in which they are listed.
    #[test]
    fn host_order_does_not_affect_outliers(releases in prop::collection::vec(0u8..3, 3..9)) {
        let hosts: Vec<Facts> = releases.iter().map(|release| kernel_facts(&release.to_string())).collect();
        let turned: Vec<Facts> = releases.iter().rev().map(|release| kernel_facts(&release.to_string())).collect();
        let of = |outliers: &OutlierReport| outliers.odd.iter().map(|odd| (odd.common.clone(), odd.hosts)).collect::<Vec<_>>();
        prop_assert_eq!(of(&find_among(&hosts)), of(&find_among(&turned)));
    }
}
