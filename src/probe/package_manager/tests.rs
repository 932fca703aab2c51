//! Tests that parse recorded answers about the package manager as a whole.

use super::*;
use crate::probe::section::testing::{answers, printed, recorded};
use std::collections::BTreeMap;

fn one(raw: &SectionOutput) -> Result<PackageManagerState, UnansweredReason> {
    let seen = answers(&build_section(vec![Probe::PackageManager], &ShellFragment::new()).expect("a section"), raw);
    seen.get(&Probe::PackageManager).map(|reading| match reading {
        ProbeReading::PackageManager(state) => state.clone(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn lock_holder_and_broken_packages_are_reported() {
    let state = one(&recorded(include_str!("../../../tests/fixtures/probe/manager.txt"))).expect("known");
    let (pid, command) = state.lock_holder.expect("held");
    assert_eq!(pid, 1466);
    assert!(command.raw().starts_with("perl -e use Fcntl;") && command.raw().ends_with("sleep 9999"));
    assert_eq!(state.broken, BTreeMap::from([("forge-broken".to_owned(), "half-configured".to_owned())]));
}

#[test]
fn holder_of_the_front_end_lock_is_named_before_its_dpkg() {
    // origin: reconstructed, apt and its dpkg in the order of `/proc/locks`
    let text = "holder\x0020\x00/usr/bin/dpkg --configure -a \x00front\x0019\x00apt-get install x \x00packages\0dpkg\tinstalled\t1\tamd64\tinstall\tdpkg\n\0";
    let (pid, command) = one(&printed(text)).expect("known").lock_holder.expect("held");
    assert_eq!((pid, command.raw()), (19, "apt-get install x"));
}

#[test]
fn healthy_host_has_no_lock_holder_or_broken_packages() {
    assert_eq!(
        one(&printed("packages\0dpkg\tinstalled\t1\tamd64\tinstall\tdpkg\n\0")),
        Ok(PackageManagerState::default())
    );
}

#[test]
fn truncated_answer_is_unknown() {
    assert_eq!(one(&printed("holder\x001\x00x\x00")).expect_err("cut").why, "`dpkg-query` returned no answer");
    assert_eq!(one(&printed("packages\0\0")).expect_err("no rows").why, "`dpkg-query` returned no answer");
    assert_eq!(one(&printed("packages\0half")).expect_err("cut").why, "`dpkg-query` returned no answer");
}
