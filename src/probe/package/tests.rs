//! Tests that parse recorded answers about dpkg packages.

use super::*;
use crate::probe::query::AptOfferPolicy;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::{answers, printed, recorded};

fn probes(names: &[&str]) -> Vec<Probe> {
    names.iter().map(|name| Probe::Package { name: (*name).to_owned(), offers: AptOfferPolicy::Unneeded }).collect()
}

fn fixture() -> SectionOutput {
    recorded(include_str!("../../../tests/fixtures/probe/package.txt"))
}

fn one(name: &str, raw: &SectionOutput) -> Result<PackageState, UnansweredReason> {
    let probes = probes(&[name]);
    let seen = answers(&build_section(probes.clone(), &ShellFragment::new()).expect("a section"), raw);
    seen.get(&probes[0]).map(|reading| match reading {
        ProbeReading::Package(state) => PackageState::clone(state),
        other => panic!("{other:?}"),
    })
}

#[test]
fn status_version_and_hold_are_parsed() {
    let state = |version: Option<&str>, status: &str, held| PackageState {
        version: version.map(str::to_owned),
        status: status.to_owned(),
        held,
        ..PackageState::default()
    };
    let raw = fixture();
    assert_eq!(one("bash", &raw), Ok(state(Some("5.2.15-2+b13"), "installed", false)));
    assert_eq!(one("forge-demo", &raw), Ok(state(Some("1.0-1"), "installed", true)));
    assert_eq!(one("forge-broken", &raw), Ok(state(Some("1.0"), "half-configured", false)));
    assert_eq!(one("nano", &raw), Ok(state(None, "not-installed", false)));
    assert_eq!(one("libc6:amd64", &raw), Ok(state(Some("2.36-9+deb12u14"), "installed", false)));
    assert_eq!(one("forge-demo:amd64", &raw), one("forge-demo", &raw), "`all` is native too");
    assert_eq!(one("libc6:i386", &raw), Ok(state(None, "not-installed", false)));
}

#[test]
fn removed_package_has_a_status_but_no_version() {
    let raw = printed(
        "dpkg\tinstalled\t1.22\tamd64\tinstall\tdpkg\nnginx\tconfig-files\t1:1.22.1-9\tall\tdeinstall\tnginx\n",
    );
    let state = one("nginx", &raw).expect("known");
    assert_eq!((state.version, state.status.as_str()), (None, "config-files"));
}

#[test]
fn native_architecture_is_preferred_over_foreign_one() {
    let rows = "dpkg\tinstalled\t1.22\tamd64\tinstall\tdpkg\nzlib1g\tinstalled\t1:1.2-1\ti386\tinstall\tzlib1g:i386\n\
                zlib1g\tinstalled\t1:1.3-1\tamd64\tinstall\tzlib1g:amd64\nwine32\tinstalled\t8.0\ti386\tinstall\twine32:i386\n";
    let version = |name| one(name, &printed(rows)).map(|state| state.version);
    assert_eq!(version("zlib1g"), Ok(Some("1:1.3-1".to_owned())));
    assert_eq!(version("zlib1g:i386"), Ok(Some("1:1.2-1".to_owned())));
    assert_eq!(version("wine32"), Ok(Some("8.0".to_owned())), "the only one there is");
}

#[test]
fn missing_row_is_unknown_not_an_absent_package() {
    assert_eq!(
        one("nginx", &printed("")),
        Err(UnansweredReason::new("`dpkg-query` returned no answer").with_message(""))
    );
    let others = printed("bash\tinstalled\t5.2\tamd64\tinstall\tbash\n");
    assert_eq!(one("nginx", &others).expect_err("incomplete listing").why, "`dpkg-query` returned no answer");
    let mut raw = fixture();
    raw.end = SectionEnd::Exited(2);
    raw.stderr = b"dpkg-query: error: parsing file '/var/lib/dpkg/status'\n".to_vec();
    assert_eq!(one("bash", &raw).expect_err("failed").why, "`dpkg-query` failed with status 2");
    raw.end = SectionEnd::TimedOut;
    assert_eq!(one("bash", &raw), Err(UnansweredReason::new("timed out after 20 s")));
    raw.end = SectionEnd::Exited(127);
    raw.stderr = b"forge-missing dpkg-query\n".to_vec();
    assert_eq!(one("bash", &raw), Err(UnansweredReason::missing_tool("dpkg-query")));
}

#[test]
fn package_names_that_are_patterns_or_options_are_rejected() {
    assert!(["bash", "libstdc++6", "g++", "libc6:i386", "python3.11"].into_iter().all(is_package_name));
    assert!(!["", "lib*", "a[b", "-W", "a b", "a:", "$(x)", "a\nb"].into_iter().any(is_package_name));
}

#[test]
fn listing_names_each_package_once() {
    let listing = build_listing(&probes(&["libstdc++6:i386", "python3.11", "libstdc++6"]));
    let text = listing.render(&crate::model::SecretStore::default()).expect("no NUL");
    let text = secrecy::ExposeSecret::expose_secret(&text).to_owned();
    assert!(text.ends_with(" ' dpkg libstdc++6 python3.11 '\n"), "{text}");
}
