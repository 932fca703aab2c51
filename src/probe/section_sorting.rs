//! Sorts probes into sections: probes of one kind into one section, each check into its own.

use super::check::ProbeCheckOptions;
use super::query::{CheckProbe, FactSnippet, Probe};
use super::section::ProbeSection;
use super::{
    UnansweredReason, apt, apt_source, authorized_keys, check, cmdline, dnf_source, evidence, fact, initramfs,
    kernel_module, key_file, mount, package, package_family, package_file, package_manager, path, records, rpm,
    section_group, sysctl, unit, unix_group, user,
};
use std::collections::BTreeSet;

/// Probes, sorted by destination.
#[derive(Default)]
pub(crate) struct SortedSections {
    pub quick: Vec<ProbeSection>,
    /// For the second channel.
    pub device: Vec<ProbeSection>,
    /// Probes that cannot be sent to a host.
    pub unasked: Vec<(Probe, UnansweredReason)>,
}

/// Sorts `probes`; `facts` contains the snippets of the fact probes, `token` is the script's.
pub(crate) fn sort_probes(
    probes: &BTreeSet<Probe>,
    facts: &[FactSnippet],
    token: &str,
    checks: ProbeCheckOptions,
) -> SortedSections {
    let (asked, unasked) = split_askable(probes, facts);
    let (quick, others) = merge_probes(&asked, facts, checks);
    let mut sorted = SortedSections { unasked, ..others };
    let alone = std::mem::take(&mut sorted.quick);
    sorted.quick.extend(section_group::group_sections(quick, token));
    sorted.quick.extend(alone);
    sorted
}

/// Returns all sections without shared processes, and the probes that cannot be sent to a host.
pub(crate) fn build_ungrouped_sections(
    probes: &BTreeSet<Probe>,
    facts: &[FactSnippet],
) -> (Vec<ProbeSection>, Vec<(Probe, UnansweredReason)>) {
    let (asked, unasked) = split_askable(probes, facts);
    let (mut sections, others) = merge_probes(&asked, facts, ProbeCheckOptions::default());
    sections.extend(others.quick);
    sections.extend(others.device);
    (sections, unasked)
}

/// Separates probes that can be sent from those that cannot.
fn split_askable(probes: &BTreeSet<Probe>, facts: &[FactSnippet]) -> (Vec<Probe>, Vec<(Probe, UnansweredReason)>) {
    let (mut asked, mut unasked) = (Vec::new(), Vec::new());
    for probe in probes {
        match refusal_reason(probe, facts) {
            Some(why) => unasked.push((probe.clone(), why)),
            None => asked.push(probe.clone()),
        }
    }
    (asked, unasked)
}

/// Merges probes of one kind; returns the sections that may share a process, and the others.
fn merge_probes(
    asked: &[Probe],
    facts: &[FactSnippet],
    checks: ProbeCheckOptions,
) -> (Vec<ProbeSection>, SortedSections) {
    let mut sorted = SortedSections::default();
    let of = |wanted: fn(&Probe) -> bool| asked.iter().filter(|p| wanted(p)).cloned().collect::<Vec<_>>();
    let packages = of(|p| matches!(p, Probe::Package { .. }));
    let wanted = of(|p| matches!(p, Probe::Fact { .. }));
    let (device, together, alone) = fact::build_sections(&wanted, facts);
    // A section that hangs costs those after it. So the order is: sections that only read forge's and dpkg's files,
    // then those that may query a directory server, then those that may touch a network mount. apt adds to dpkg's
    // answers.
    let mut quick: Vec<ProbeSection> =
        records::build_section(of(|p| matches!(p, Probe::Records | Probe::Account))).into_iter().collect();
    let listing = package::build_listing(&packages);
    quick.extend(package::build_section(packages.clone(), &listing));
    quick.extend(package_manager::build_section(of(|p| matches!(p, Probe::PackageManager)), &listing));
    // Has its own time limit.
    quick.extend(unit::build_section(of(|p| matches!(p, Probe::Unit { .. }))));
    quick.extend(sysctl::build_section(of(|p| matches!(p, Probe::Sysctl { .. }))));
    quick.extend(kernel_module::build_section(of(|p| matches!(p, Probe::Module { .. }))));
    quick.extend(cmdline::build_section(of(|p| matches!(p, Probe::Cmdline))));
    quick.extend(mount::build_section(of(|p| matches!(p, Probe::Mount { .. }))));
    quick.extend(user::build_section(of(|p| matches!(p, Probe::User { .. }))));
    quick.extend(unix_group::build_section(of(|p| matches!(p, Probe::Group { .. }))));
    quick.extend(apt_source::build_section(of(|p| matches!(p, Probe::AptSources))));
    quick.extend(dnf_source::build_section(of(|p| matches!(p, Probe::DnfSources))));
    quick.extend(path::build_sections(of(|p| matches!(p, Probe::Path { .. }))));
    quick.extend(authorized_keys::build_section(of(|p| matches!(p, Probe::AuthorizedKeys { .. }))));
    quick.extend(together);
    quick.extend(apt::build_section(packages.clone(), &listing));
    quick.extend(package_family::build_section(of(|p| matches!(p, Probe::PackageFamily { .. }))));
    // After all answers of dpkg and apt: on an rpm host, this section answers in their place.
    quick.extend(rpm::build_section(packages, of(|p| matches!(p, Probe::PackageManager))));
    quick.extend(key_file::build_section(of(|p| matches!(p, Probe::Key { .. }))));
    quick.extend(package_file::build_section(of(|p| matches!(p, Probe::PackageFile { .. }))));
    sorted.quick.extend(initramfs::build_section(of(|p| matches!(p, Probe::Initramfs { .. }))));
    sorted.quick.extend(alone);
    sorted.device.extend(device);
    sorted.quick.extend(asked.iter().filter_map(|probe| check::build_section(probe, checks)));
    sorted.quick.extend(asked.iter().filter_map(evidence::build_section));
    (quick, sorted)
}

/// Returns why `probe` cannot be sent to a host.
pub(super) fn refusal_reason(probe: &Probe, facts: &[FactSnippet]) -> Option<UnansweredReason> {
    let why = match probe {
        Probe::Path { path, want } if has_nul([Some(path), want.as_ref()]) => "the path contains a NUL byte",
        Probe::Key { path } | Probe::PackageFile { path } if path.contains('\0') => "the path contains a NUL byte",
        Probe::Group { name, .. } if !user::is_user_name(name) => "is not a group name",
        Probe::Package { name, .. } if !package::is_package_name(name) => "is not a package name",
        Probe::PackageFamily { patterns, .. } if !patterns.iter().all(|p| package_family::is_family_pattern(p)) => {
            "is not a pattern of package names"
        }
        Probe::Unit { name } => unit::refusal_reason(name)?,
        Probe::User { name } | Probe::AuthorizedKeys { user: name } if !user::is_user_name(name) => {
            "is not a user name"
        }
        Probe::Sysctl { key } if !sysctl::is_sysctl_key(key) => "is not a kernel setting",
        Probe::Module { name } if !kernel_module::is_module_name(name) => "is not a module name",
        Probe::Initramfs { files, .. } if has_nul(files.iter().map(Some)) => "the path contains a NUL byte",
        Probe::Initramfs { modules, .. } if !modules.iter().all(|name| kernel_module::is_module_name(name)) => {
            "is not a module name"
        }
        Probe::Evidence { units, paths, .. } => evidence::refusal_reason(units, paths)?,
        Probe::Mount { path, source } if has_nul([Some(path), Some(source)]) => "the mount contains a NUL byte",
        Probe::Check(check) => {
            let CheckProbe { script, user, cwd, env, .. } = &**check;
            let env = env.iter().flat_map(|(key, value)| [Some(key), Some(value)]);
            if has_nul([Some(script), user.as_ref(), cwd.as_ref()].into_iter().chain(env)) {
                "the check contains a NUL byte"
            } else if script.len() > check::SCRIPT_CAP {
                "the check exceeds the maximum length of a shell argument"
            } else {
                return None;
            }
        }
        probe if probe.is_api_probe() => "is a query for a cluster's API",
        Probe::Fact { name } if !facts.iter().any(|fact| fact.name == name) => "is not a fact that forge knows",
        _ => return None,
    };
    Some(UnansweredReason::new(why))
}

fn has_nul<'a>(texts: impl IntoIterator<Item = Option<&'a String>>) -> bool {
    texts.into_iter().flatten().any(|text| text.contains('\0'))
}
