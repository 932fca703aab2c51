//! `package`: packages of dpkg and apt, or of rpm and dnf.

pub(in crate::resource) mod act;
pub(in crate::resource) mod dnf;
mod judge;
pub(in crate::resource) mod version;

use super::lock;
use super::support::{bad_value, package_state};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::Value;
use crate::probe::{Manager, Observation, Offers, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "package",
    summary: "Packages of apt or dnf: present, absent, at an exact version, held.",
    example: include_str!("../examples/package.yaml"),
    doc: "\
All names of a step go through one transaction of apt, or of dnf on a host where dpkg has no packages.

**Compared** are the installed version (only when `version` is declared: without one any installed version is
right and nothing is ever upgraded), dpkg's status and, when declared, the hold. Versions are compared by
Debian's rules, or by rpm's: there `version` is `EPOCH:VERSION-RELEASE`, no epoch is epoch 0, and without a release
any release is right. Nothing to do reads `nginx 1.22.1-9 is installed`.

**A change** first waits for other holders of dpkg's and apt's locks and names them with pid and command line,
finishes what an interrupted dpkg left (`dpkg --configure -a`, reinstalls packages that dpkg says must be,
`apt-get -f install`), updates apt's lists when they do not know the wanted version, and installs without
questions; changed configuration files stay as they are (`--force-confdef --force-confold`). It never removes
another package to make room, and goes to a lower version only when that exact version is declared, which the
plan then calls a `downgrade`. Held packages are released for the change and held again, also when it fails.
The action outlives a lost connection. Success is judged by the installed version.

**Disruption** is D1 when an installed version changes or goes, since maintainer scripts restart services.

**Not in apt's lists:** with `update: if-missing` the lists are updated first and the plan says so; with
`update: never` the step is blocked unless an earlier step (a repository) may bring the package.

**Removal** takes exactly the named packages: when apt would take others along, it stops and names them.
Configuration stays unless `purge: true`.

**With dnf** a hold is an entry of its `versionlock`; where that plugin is missing, a declared hold is blocked. What
its repositories offer is not asked for in a plan: a version that none offers fails when it is installed, and `update`
has no meaning, since dnf refreshes by itself. A package of another architecture is `name.arch`. Of packages that are installed in
several versions (kernels) one that is the declared version is enough. rpm keeps changed configuration as `.rpmsave`,
also with `purge`. A `restart_on` sees a new package by its version alone.
The proof below is that of apt. What is said of dnf is **recorded**: output of rpm 4.18 and dnf 4.14, taken on a Debian 12
host whose dpkg was put away, and output of RHEL 9 that is reconstructed. No RHEL host has been tried.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::optional(
        "name",
        Type::Name,
        "One package, `name` or `name:architecture` (dnf: `name.arch`). Excludes `names`.",
    ),
    Field::optional("names", Type::List(&Type::Name), "Several packages in one transaction. Excludes `name`."),
    Field::optional("version", Type::Version, "The exact version, as dpkg or rpm prints it; holds for every name."),
    Field::optional(
        "hold",
        Type::Bool,
        "Whether apt or dnf must leave it at its version. Not looked at when left out.",
    ),
    Field::optional("purge", Type::Bool, "Whether a removal takes the configuration too. Default `false`."),
    Field::optional(
        "update",
        Type::Enum(&["if-missing", "never"]),
        "Whether apt's lists are updated when they do not know what is wanted. Default `if-missing`.",
    ),
    lock::FIELD,
];

#[derive(Debug)]
struct Package {
    names: Vec<String>,
    version: Option<String>,
    hold: Option<bool>,
    purge: bool,
    update: bool,
    lock_timeout: u64,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let version = fields.text("version").map(str::to_owned);
    if let Some(version) = &version {
        version::check(version)?;
    }
    Ok(Box::new(Package {
        names: names(fields)?,
        version,
        hold: fields.bool("hold"),
        purge: fields.bool("purge").unwrap_or(false),
        update: fields.text("update") != Some("never"),
        lock_timeout: lock::timeout(fields),
        absent,
    }))
}

fn names(fields: &Fields) -> Result<Vec<String>, Diag> {
    let names = match (fields.text("name"), fields.texts("names")) {
        (Some(_), Some(_)) => return Err(Diag::error(Code::Exclusive, "`name` and `names` exclude each other")),
        (None, None) => return Err(Diag::error(Code::MissingKey, "a package needs `name` or `names`")),
        (Some(name), None) => vec![name.to_owned()],
        (None, Some(names)) => names,
    };
    if names.is_empty() {
        return Err(bad_value("`names` is empty"));
    }
    for (i, name) in names.iter().enumerate() {
        check_name(name)?;
        if names[..i].contains(name) {
            return Err(Diag::error(Code::Duplicate, format!("package `{name}` is named twice")));
        }
    }
    Ok(names)
}

/// What may name a package of dpkg or of rpm; which of them a host has is not known here. apt reads a trailing `-` as
/// an order to remove.
pub(super) fn check_name(name: &str) -> Result<(), Diag> {
    let (bare, arch) = name.split_once(':').map_or((name, None), |(bare, arch)| (bare, Some(arch)));
    let word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b));
    let starts = bare.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let arch_fits = arch.is_none_or(|arch| !arch.is_empty() && word(arch));
    if starts && word(bare) && arch_fits && !name.ends_with('-') {
        return Ok(());
    }
    Err(bad_value(format!("`{name}` is not the name of a package"))
        .hint("letters, digits and `+-._`; a version goes into `version`"))
}

impl Package {
    /// What apt offers matters only where something is to be installed.
    fn probe(&self, name: &str) -> Probe {
        let offers = match &self.version {
            _ if self.absent => Offers::Unneeded,
            None => Offers::UnlessInstalled,
            Some(version) => Offers::UnlessVersion(version.clone()),
        };
        Probe::Package { name: name.to_owned(), offers }
    }
}

impl Resource for Package {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.names.join(", ")
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes: Vec<Probe> = self.names.iter().map(|name| self.probe(name)).collect();
        probes.push(Probe::PackageManager);
        probes
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let states: Result<Vec<_>, _> =
            self.names.iter().map(|name| Ok((name.as_str(), package_state(seen, &self.probe(name))?))).collect();
        match states {
            Ok(states) => judge::judge(self, &states, seen, cx),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    fn act(&self, judgement: &Judgement, _cx: &Context<'_>) -> Action {
        match judge::manager(judgement) {
            Manager::Dpkg => Action { body: act::action(self, judgement), long: true, explain: act::EXPLAIN },
            Manager::Rpm => Action { body: dnf::action(self, judgement), long: true, explain: dnf::EXPLAIN },
        }
    }

    fn desired(&self) -> Value {
        json!({ "names": self.names, "version": self.version, "hold": self.hold, "absent": self.absent })
    }

    fn provides(&self) -> Vec<Provision> {
        match self.absent {
            true => Vec::new(),
            false => self.names.iter().cloned().map(Provision::Package).collect(),
        }
    }

    /// Whether it is held changes nothing that runs.
    fn input_value(&self) -> Value {
        json!({ "names": self.names, "version": self.version, "absent": self.absent })
    }

    /// dpkg writes a package's file list anew each time it unpacks the package; the files themselves keep
    /// the times of their build.
    fn inputs(&self) -> Vec<String> {
        self.names.iter().flat_map(|name| lists(name)).collect()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        self.names.iter().map(|name| (KIND.name, name.clone())).collect()
    }

    /// Which others are installed with it says nothing of a package.
    fn claimed(&self) -> Value {
        json!({ "version": self.version, "hold": self.hold, "absent": self.absent })
    }
}

/// Where dpkg keeps the list of a package's files. Packages of several architectures have theirs in it.
const LISTS: &str = "/var/lib/dpkg/info/";

pub(super) fn lists(name: &str) -> Vec<String> {
    match name.contains(':') {
        true => vec![format!("{LISTS}{name}.list")],
        false => ["", ":amd64", ":arm64"].iter().map(|arch| format!("{LISTS}{name}{arch}.list")).collect(),
    }
}

/// Returns whether an input's path tells of an unpacked package rather than of content.
pub(super) fn is_list(path: &str) -> bool {
    path.starts_with(LISTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entries: &[(&'static str, Value)]) -> String {
        build(&Fields(entries.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn names_are_names_of_packages() {
        let good =
            ["g++", "libc6:i386", "python3.11", "0ad", "linux-image-6.1.0-18-amd64", "NetworkManager", "glibc.i686"];
        for good in good {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["nginx-", "-y", "_a", "a=1", "", "libc6:", ":amd64", "a@b"] {
            assert_eq!(check_name(bad).unwrap_err().message, format!("`{bad}` is not the name of a package"));
        }
    }

    #[test]
    fn one_way_to_name_packages() {
        assert_eq!(refused(&[]), "a package needs `name` or `names`");
        assert_eq!(refused(&[("name", json!("a")), ("names", json!(["b"]))]), "`name` and `names` exclude each other");
        assert_eq!(refused(&[("names", json!([]))]), "`names` is empty");
        assert_eq!(refused(&[("names", json!(["a", "b", "a"]))]), "package `a` is named twice");
        assert_eq!(
            refused(&[("name", json!("a")), ("version", json!("1 2"))]),
            "`1 2` is not the version of a package"
        );
    }

    #[test]
    fn a_hold_is_no_reason_to_restart() {
        let value = |hold: bool| {
            let fields = [("name", json!("a")), ("hold", json!(hold))];
            build(&Fields(fields.into_iter().collect()), false).unwrap().input_value()
        };
        assert_eq!(value(true), value(false));
    }
}
