//! Sorts probes into sections: probes of one kind into one section, each check into its own.

use super::check::ProbeCheckOptions;
use super::section::ProbeSection;
use super::{FactSnippet, Probe, UnansweredReason};
use super::{
    apt, apt_source, check, cmdline, evidence, fact, group, initramfs, key, keys, manager, module, mount, package,
};
use super::{package_file, path, records, rpm, sysctl, unit, unix_group, user};
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
pub(crate) fn sort(
    probes: &BTreeSet<Probe>,
    facts: &[FactSnippet],
    token: &str,
    checks: ProbeCheckOptions,
) -> SortedSections {
    let (asked, unasked) = askable(probes, facts);
    let (quick, others) = merged(&asked, facts, checks);
    let mut sorted = SortedSections { unasked, ..others };
    let alone = std::mem::take(&mut sorted.quick);
    sorted.quick.extend(group::groups(quick, token));
    sorted.quick.extend(alone);
    sorted
}

/// Returns all sections without shared processes, and the probes that cannot be sent to a host.
pub(crate) fn parts(
    probes: &BTreeSet<Probe>,
    facts: &[FactSnippet],
) -> (Vec<ProbeSection>, Vec<(Probe, UnansweredReason)>) {
    let (asked, unasked) = askable(probes, facts);
    let (mut sections, others) = merged(&asked, facts, ProbeCheckOptions::default());
    sections.extend(others.quick);
    sections.extend(others.device);
    (sections, unasked)
}

/// Separates probes that can be sent from those that cannot.
fn askable(probes: &BTreeSet<Probe>, facts: &[FactSnippet]) -> (Vec<Probe>, Vec<(Probe, UnansweredReason)>) {
    let (mut asked, mut unasked) = (Vec::new(), Vec::new());
    for probe in probes {
        match refusal(probe, facts) {
            Some(why) => unasked.push((probe.clone(), why)),
            None => asked.push(probe.clone()),
        }
    }
    (asked, unasked)
}

/// Merges probes of one kind; returns the sections that may share a process, and the others.
fn merged(asked: &[Probe], facts: &[FactSnippet], checks: ProbeCheckOptions) -> (Vec<ProbeSection>, SortedSections) {
    let mut sorted = SortedSections::default();
    let of = |wanted: fn(&Probe) -> bool| asked.iter().filter(|p| wanted(p)).cloned().collect::<Vec<_>>();
    let packages = of(|p| matches!(p, Probe::Package { .. }));
    let wanted = of(|p| matches!(p, Probe::Fact { .. }));
    let (device, together, alone) = fact::sections(&wanted, facts);
    // A section that hangs costs those after it. So the order is: sections that only read forge's and dpkg's files,
    // then those that may query a directory server, then those that may touch a network mount. apt adds to dpkg's
    // answers.
    let mut quick: Vec<ProbeSection> =
        records::section(of(|p| matches!(p, Probe::Records | Probe::Account))).into_iter().collect();
    let listing = package::listing(&packages);
    quick.extend(package::section(packages.clone(), &listing));
    quick.extend(manager::section(of(|p| matches!(p, Probe::PackageManager)), &listing));
    quick.extend(sysctl::section(of(|p| matches!(p, Probe::Sysctl { .. }))));
    quick.extend(module::section(of(|p| matches!(p, Probe::Module { .. }))));
    quick.extend(cmdline::section(of(|p| matches!(p, Probe::Cmdline))));
    quick.extend(mount::section(of(|p| matches!(p, Probe::Mount { .. }))));
    quick.extend(user::section(of(|p| matches!(p, Probe::User { .. }))));
    quick.extend(unix_group::section(of(|p| matches!(p, Probe::Group { .. }))));
    quick.extend(apt_source::section(of(|p| matches!(p, Probe::AptSources))));
    quick.extend(path::sections(of(|p| matches!(p, Probe::Path { .. }))));
    quick.extend(keys::section(of(|p| matches!(p, Probe::AuthorizedKeys { .. }))));
    quick.extend(together);
    quick.extend(apt::section(packages.clone(), &listing));
    // After all answers of dpkg and apt: on an rpm host, this section answers in their place.
    quick.extend(rpm::section(packages, of(|p| matches!(p, Probe::PackageManager))));
    quick.extend(key::section(of(|p| matches!(p, Probe::Key { .. }))));
    quick.extend(package_file::section(of(|p| matches!(p, Probe::PackageFile { .. }))));
    sorted.quick.extend(unit::section(of(|p| matches!(p, Probe::Unit { .. }))));
    sorted.quick.extend(initramfs::section(of(|p| matches!(p, Probe::Initramfs { .. }))));
    sorted.quick.extend(alone);
    sorted.device.extend(device);
    sorted.quick.extend(asked.iter().filter_map(|probe| check::section(probe, checks)));
    sorted.quick.extend(asked.iter().filter_map(evidence::section));
    (quick, sorted)
}

/// Returns why `probe` cannot be sent to a host.
fn refusal(probe: &Probe, facts: &[FactSnippet]) -> Option<UnansweredReason> {
    let why = match probe {
        Probe::Path { path, want } if nul([Some(path), want.as_ref()]) => "the path contains a NUL byte",
        Probe::Key { path } | Probe::PackageFile { path } if path.contains('\0') => "the path contains a NUL byte",
        Probe::Group { name, .. } if !user::is_name(name) => "is not a group name",
        Probe::Package { name, .. } if !package::is_name(name) => "is not a package name",
        Probe::Unit { name } => unit::refusal(name)?,
        Probe::User { name } | Probe::AuthorizedKeys { user: name } if !user::is_name(name) => "is not a user name",
        Probe::Sysctl { key } if !sysctl::is_key(key) => "is not a kernel setting",
        Probe::Module { name } if !module::is_name(name) => "is not a module name",
        Probe::Initramfs { files, .. } if nul(files.iter().map(Some)) => "the path contains a NUL byte",
        Probe::Initramfs { modules, .. } if !modules.iter().all(|name| module::is_name(name)) => "is not a module name",
        Probe::Evidence { units, paths, .. } => evidence::refusal(units, paths)?,
        Probe::Mount { path, source } if nul([Some(path), Some(source)]) => "the mount contains a NUL byte",
        Probe::Check { script, user, cwd, env, .. } => {
            let env = env.iter().flat_map(|(key, value)| [Some(key), Some(value)]);
            if nul([Some(script), user.as_ref(), cwd.as_ref()].into_iter().chain(env)) {
                "the check contains a NUL byte"
            } else if script.len() > check::SCRIPT_CAP {
                "the check exceeds the maximum length of a shell argument"
            } else {
                return None;
            }
        }
        probe if probe.is_to_api() => "is a query for a cluster's API",
        Probe::Fact { name } if !facts.iter().any(|fact| fact.name == name) => "is not a fact that forge knows",
        _ => return None,
    };
    Some(UnansweredReason::new(why))
}

fn nul<'a>(texts: impl IntoIterator<Item = Option<&'a String>>) -> bool {
    texts.into_iter().flatten().any(|text| text.contains('\0'))
}
