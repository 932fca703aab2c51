//! Tests that parse recorded answers about families of packages.

use super::*;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::answers;

const ROWS: &str = "dpkg\t1.22.6\tinstalled\tamd64\nlibnvidia-compute-550\t550.90.07-0ubuntu1\tinstalled\tamd64\n\
                    libnvidia-compute-550\t550.90.07-0ubuntu1\tinstalled\ti386\nnvidia-modprobe\t550.90.07-0ubuntu1\tinstalled\tamd64\n\
                    nvidia-dkms-535\t\tconfig-files\tamd64\nlibnvidia-container1\t1.17.8-1\tinstalled\tamd64";

const POLICY: &str = "libnvidia-compute-550:\n  Installed: 550.90.07-0ubuntu1\n  Candidate: 550.90.07-0ubuntu1\n  Version table:\n \
                      *** 550.90.07-0ubuntu1 500\n        500 file:/srv ./ Packages\n        100 /var/lib/dpkg/status\n\
                      nvidia-modprobe:\n  Installed: 550.90.07-0ubuntu1\n  Candidate: 570.148.08-1ubuntu1\n  Version table:\n     \
                      570.148.08-1ubuntu1 500\n        500 file:/srv ./ Packages\n";

fn family(stdout: &str, patterns: &[&str]) -> Result<PackageFamilyState, String> {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let probe = Probe::PackageFamily { patterns, upstream: Some("570.148.08".to_owned()) };
    let raw = SectionOutput {
        end: SectionEnd::Exited(0),
        began: false,
        stdout: stdout.as_bytes().to_vec(),
        stderr: Vec::new(),
        truncated: false,
    };
    let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), &raw);
    seen.get(&probe).map_err(|unknown| unknown.why).map(|reading| match reading {
        ProbeReading::PackageFamily(state) => PackageFamilyState::clone(state),
        other => panic!("{other:?}"),
    })
}

fn names(state: &PackageFamilyState) -> Vec<&str> {
    state.members.iter().map(|member| member.name.as_str()).collect()
}

#[test]
fn only_unpacked_packages_that_match_a_pattern_are_members() {
    // origin: reconstructed after the output formats of dpkg 1.22 and apt 2.6
    let state = family(&format!("dpkg\0{ROWS}\x000\0{POLICY}\0"), &["libnvidia-compute*", "nvidia-*"]).unwrap();
    assert_eq!(names(&state), ["libnvidia-compute-550", "libnvidia-compute-550:i386", "nvidia-modprobe"]);
    assert_eq!(state.members[0].available, ["550.90.07-0ubuntu1"]);
    assert_eq!(state.members[2].available, ["570.148.08-1ubuntu1"]);
    assert_eq!(state.offers_unknown, None);
}

#[test]
fn failed_apt_cache_makes_offers_unknown() {
    let state = family(&format!("dpkg\0{ROWS}\x00100\0\0"), &["nvidia-*"]).unwrap();
    assert_eq!(state.offers_unknown.as_deref(), Some("`apt-cache` failed"));
}

#[test]
fn listing_without_the_row_of_dpkg_is_unknown() {
    assert_eq!(family("dpkg\0\x000\0\0", &["nvidia-*"]).unwrap_err(), "`dpkg-query` returned no answer");
}

#[test]
fn offers_of_dnf_are_listed_for_members_of_another_version() {
    let rows = "nvidia-driver-cuda\t3:570.172.08-1.el9\nnvidia-driver-libs\t3:570.172.08-1.el9";
    let offers = "nvidia-driver-cuda\t3:580.95.05-1.el9\nnvidia-driver-cuda\t3:580.105.08-1.el9";
    let state = family(&format!("rpm\0{rows}\x000\0{offers}\0"), &["nvidia-driver*"]).unwrap();
    assert_eq!(state.members[0].available, ["3:580.105.08-1.el9", "3:580.95.05-1.el9"]);
    assert_eq!((state.members[1].available.len(), state.offers_unknown), (0, None));
    let failed = family(&format!("rpm\0{rows}\x001\0\0"), &["nvidia-driver*"]).unwrap();
    assert_eq!(failed.offers_unknown.as_deref(), Some("`dnf repoquery` failed"));
}

#[test]
fn rpm_lists_members_without_offers() {
    let state = family("rpm\0nvidia-driver-cuda\t3:580.105.08-1.el9\x000\0\0", &["nvidia-driver*"]).unwrap();
    assert_eq!((state.manager, names(&state)), (PackageManagerKind::Rpm, vec!["nvidia-driver-cuda"]));
}

#[test]
fn patterns_are_names_with_stars() {
    assert!(["nvidia-*", "cuda-drivers", "lib*"].into_iter().all(is_family_pattern));
    assert!(["", "*", "-x", "a b", "a[b]", "$x", "a;b"].into_iter().all(|pattern| !is_family_pattern(pattern)));
}
