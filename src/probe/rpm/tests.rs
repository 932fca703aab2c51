//! Tests that parse output of rpm and dnf.

use super::*;
use crate::probe::HoldObstacle;
use crate::probe::UnansweredReason;
use crate::probe::section::testing::{answers, printed};
use proptest::prelude::*;

fn ask(name: &str, offers: AptOfferPolicy, stdout: &str) -> Result<PackageState, UnansweredReason> {
    let probe = Probe::Package { name: name.to_owned(), offers };
    let seen = answers(&build_section(vec![probe.clone()], Vec::new()).expect("a section"), &printed(stdout));
    seen.get(&probe).map(|reading| match reading {
        ProbeReading::Package(state) => PackageState::clone(state),
        other => panic!("{other:?}"),
    })
}

// origin: field, rpm 4.18 and dnf 4.14 on Debian 12, with the rows of RHEL 9 reconstructed
const ROWS: &str = "kernel\tx86_64\t5.14.0-427.el9\nkernel\tx86_64\t5.14.0-503.el9\nglibc\ti686\t2.34-100.el9\n\
                    package zork is not installed";
const LOCK: &str = "/etc/dnf/plugins/versionlock.list\n# Added lock on Sat Nov 21 13:20:00 2026\nglibc-0:2.34-100.el9.*\n!kernel-0:1-1.*\n";

fn said(rows: &str, locks: &str) -> String {
    format!("rpm\0\0\0{rows}\0{locks}\0")
}

#[test]
fn installed_locked_and_missing_packages_are_parsed() {
    let glibc = ask("glibc.i686", AptOfferPolicy::Unneeded, &said(ROWS, LOCK)).unwrap();
    assert_eq!(
        (glibc.version.as_deref(), glibc.held, glibc.manager),
        (Some("2.34-100.el9"), true, PackageManagerKind::Rpm)
    );
    let zork = ask("zork", AptOfferPolicy::Unneeded, &said(ROWS, LOCK)).unwrap();
    assert_eq!((zork.version, zork.status.as_str(), zork.held), (None, "not-installed", false));
    assert_eq!(zork.cannot_hold, None);
    let bare = ask("zork", AptOfferPolicy::Unneeded, &said(ROWS, "")).unwrap();
    assert_eq!(bare.cannot_hold, Some(HoldObstacle::NotInstalled));
}

#[test]
fn wanted_version_is_preferred_among_installed_ones() {
    let version = |offers| ask("kernel", offers, &said(ROWS, LOCK)).unwrap().version.unwrap();
    assert_eq!(version(AptOfferPolicy::UnlessInstalled), "5.14.0-503.el9");
    assert_eq!(version(AptOfferPolicy::UnlessVersion("5.14.0-427.el9".into())), "5.14.0-427.el9");
    assert_eq!(version(AptOfferPolicy::UnlessVersion("6".into())), "5.14.0-503.el9");
}

#[test]
fn offers_of_dnf_are_added_if_an_upstream_version_is_wanted() {
    let wanted = |upstream: &str| AptOfferPolicy::UnlessUpstream(upstream.to_owned());
    let offers = "0\0zork\t3:580.95.05-1.el9\nzork\t3:580.105.08-1.el9\n\0";
    let asked = ask("zork", wanted("580.95.05"), &(said(ROWS, LOCK) + offers)).unwrap();
    assert_eq!(asked.available, ["3:580.105.08-1.el9", "3:580.95.05-1.el9"]);
    assert_eq!(asked.offers_unknown, None);
    let failed = ask("zork", wanted("580.95.05"), &(said(ROWS, LOCK) + "1\0\0")).unwrap();
    assert_eq!((failed.available.len(), failed.offers_unknown.as_deref()), (0, Some("dnf was not asked")));
    let unneeded = ask("zork", AptOfferPolicy::Unneeded, &(said(ROWS, LOCK) + offers)).unwrap();
    assert_eq!((unneeded.available.len(), unneeded.offers_unknown.as_deref()), (0, Some("dnf was not asked")));
}

#[test]
fn broken_database_is_unknown_not_an_absent_package() {
    let rows = "error: cannot open Packages database in /var/lib/rpm\npackage zork is not installed";
    assert_eq!(ask("zork", AptOfferPolicy::Unneeded, &said(rows, "")).unwrap_err().why, "`rpm` returned no answer");
    assert_eq!(ask("other", AptOfferPolicy::Unneeded, &said(ROWS, "")).unwrap_err().why, "`rpm` returned no answer");
    assert_eq!(
        ask("zork", AptOfferPolicy::Unneeded, "rpm\0\0\0package zo").unwrap_err().why,
        "`rpm` returned no answer"
    );
}

#[test]
fn rpm_section_gives_no_answer_on_dpkg_hosts() {
    let probe = Probe::Package { name: "zork".into(), offers: AptOfferPolicy::Unneeded };
    let seen = answers(&build_section(vec![probe.clone()], Vec::new()).expect("a section"), &printed(""));
    assert!(!seen.has_answer(&probe));
}

#[test]
fn lock_holder_is_reported() {
    let seen = answers(
        &build_section(Vec::new(), vec![Probe::PackageManager]).expect("a section"),
        &printed("rpm\x0041\0dnf update \0"),
    );
    let Ok(ProbeReading::PackageManager(state)) = seen.get(&Probe::PackageManager) else { panic!("{seen:?}") };
    assert_eq!(state.lock_holder, Some((41, "dnf update".into())));
}

#[test]
fn lock_of_another_version_is_not_a_hold() {
    let locks = "/etc/dnf/plugins/versionlock.list\nglibc-0:2.35-1.el9.*\n";
    let glibc = ask("glibc.i686", AptOfferPolicy::Unneeded, &said(ROWS, locks)).unwrap();
    assert_eq!((glibc.held, glibc.other_lock.as_deref()), (false, Some("glibc-0:2.35-1.el9.*")));
    assert!(glibc.has_hold());
}

/// Each pair is in ascending order. Source: rpm's own tests of `rpmvercmp`.
#[test]
fn versions_are_compared_by_rpm_rules() {
    for (a, b) in [
        ("1.0", "2.0"),
        ("2.0", "2.0.1"),
        ("5.5p1", "5.5p10"),
        ("10xyz", "10.1xyz"),
        ("xyz10", "xyz10.1"),
        ("xyz.4", "8"),
        ("5.5p2", "5.6p1"),
        ("6.0", "6.0.rc1"),
        ("10a1x", "10b2"),
        ("1.0~rc1", "1.0"),
        ("1.0~rc1~git123", "1.0~rc1"),
        ("1.0", "1.0^"),
        ("1.0^", "1.0^git1"),
        ("1.0^git1", "1.01"),
        ("1.0~rc1", "1.0~rc1^git1"),
        ("99:1-1", "100:0-1"),
        ("9-9", "1:1-1"),
        ("1-1", "1-2"),
        ("20240101", "20240102123456789012345678901234567890"),
        // An epoch has only digits, and the release follows the last hyphen.
        ("a:9", "1"),
        ("z:1-1", "z:2-1"),
        ("1-2-3", "1-3-1"),
        ("1-9", "1-1-1"),
    ] {
        assert_eq!(compare_rpm_versions(a, b), Ordering::Less, "{a} {b}");
        assert_eq!(compare_rpm_versions(b, a), Ordering::Greater, "{b} {a}");
    }
    for (a, b) in
        [("2.0", "2_0"), ("1.010", "1.10"), ("0:1-1", "1-1"), ("1.0", "1.0-5.el9"), ("a.", "a"), ("1.0~", "1.0~")]
    {
        assert_eq!(compare_rpm_versions(a, b), Ordering::Equal, "{a} {b}");
        assert_eq!(compare_rpm_versions(b, a), Ordering::Equal, "{b} {a}");
    }
}

proptest! {
    /// Versions come from hosts: any text has an order.
    #[test]
    fn order_of_any_two_versions_is_consistent(a in "([0-9]:)?([a-b0-2._~^+:-]{0,8}|\\PC{0,8})", b in "[a-b0-2._~^+:-]{0,8}") {
        prop_assert_eq!(compare_rpm_versions(&a, &b), compare_rpm_versions(&b, &a).reverse());
        prop_assert_eq!(compare_rpm_versions(&a, &a), Ordering::Equal);
    }
}
