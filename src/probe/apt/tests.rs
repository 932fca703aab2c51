//! Tests that parse recorded answers about apt's offers.

use super::*;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::recorded;
use crate::probe::{PackageState, ProbeReading};

const FIXTURE: &str = include_str!("../../../tests/fixtures/probe/apt.txt");

fn read_for(names: &[&str], raw: &SectionOutput) -> Vec<PackageState> {
    let probes: Vec<Probe> = names
        .iter()
        .map(|name| Probe::Package { name: (*name).to_owned(), offers: AptOfferPolicy::UnlessInstalled })
        .collect();
    let mut seen = Observation::default();
    for probe in &probes {
        seen.insert(probe.clone(), Ok(ProbeReading::Package(Box::default())));
    }
    let section = build_section(probes.clone(), &ShellFragment::new()).expect("a section");
    (section.read)(&section, raw, &mut seen);
    let state = |probe| match seen.get(probe) {
        Ok(ProbeReading::Package(state)) => PackageState::clone(state),
        other => panic!("{other:?}"),
    };
    probes.iter().map(state).collect()
}

#[test]
fn candidate_and_available_versions_are_sorted_newest_first() {
    let states = read_for(&["forge-demo", "bash", "nano", "libc6:amd64", "libc6:i386", "not-here"], &recorded(FIXTURE));
    let candidates: Vec<_> = states.iter().map(|state| state.candidate.as_deref()).collect();
    let libc = "2.36-9+deb12u14";
    assert_eq!(candidates, [Some("2.0-1"), Some("5.2.15-2+b13"), None, Some(libc), None, None]);
    assert_eq!(states[0].available, ["2.0-1", "1.1-1", "1.0-1"]);
    assert_eq!(states[1].available, [""; 0], "a version that is only in dpkg's status is not offered");
}

#[test]
fn version_from_several_sources_is_listed_once() {
    let policy = "nginx:\n  Installed: (none)\n  Candidate: 1.22.1-9+deb12u11\n  Version table:\n     1.22.1-9+deb12u11 500\n        \
                  500 http://mirror.example/debian-security bookworm-security/main amd64 Packages\n     1.22.1-9 500 (phased 10%)\n        \
                  500 http://mirror.example/debian bookworm/main amd64 Packages\n        500 http://other.example/debian bookworm/main amd64 Packages\n";
    let offer = AptOffer {
        candidate: Some("1.22.1-9+deb12u11".into()),
        available: vec!["1.22.1-9+deb12u11".into(), "1.22.1-9".into()],
    };
    assert_eq!(parse_policy(policy), BTreeMap::from([("nginx", offer)]));
}

#[test]
fn failed_apt_cache_leaves_offers_unknown() {
    let mut raw = recorded(FIXTURE);
    raw.end = SectionEnd::Exited(100);
    let state = &read_for(&["bash"], &raw)[0];
    assert_eq!(state.offers_unknown.as_deref(), Some("`apt-cache` failed with status 100"));
    assert_eq!(state.candidate, None);
}

#[test]
fn offers_not_requested_are_unknown() {
    let state = &read_for(&["tzdata"], &recorded(FIXTURE))[0];
    assert_eq!(state.offers_unknown.as_deref(), Some("apt was not asked"));
    assert_eq!(
        read_for(&["bash"], &recorded("origin: made up\n\n"))[0].offers_unknown.as_deref(),
        Some("apt was not asked")
    );
}
