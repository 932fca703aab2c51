//! `package`: packages of dpkg and apt, or of rpm and dnf.

pub(in crate::resource) mod action_script;
mod assessment;
mod declaration;
mod diff;
pub(in crate::resource) mod dnf;
mod family;
mod parsing;
mod undo;
pub(in crate::resource) mod version;

use crate::diag::Diag;
use crate::model::{UndoEffect, Value};
use crate::probe::{AptOfferPolicy, Observation, PackageManagerKind, Probe};
use crate::resource::shared::package_lock;
use crate::resource::shared::support::{family_state, package_state};
use crate::resource::traits::{EffectReach, KindTraits, PackageListing};
use crate::resource::{
    Action, ActionBatch, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use declaration::PackageResource;
use diff::PackageDiff;
pub(in crate::resource) use parsing::check_package_name;
use serde_json::json;
use version::VersionRequirement;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "package",
    summary: "Packages of apt or dnf: present or absent, at an exact version, held.",
    example: include_str!("../../examples/package.yaml"),
    doc: "\
All names of a step are installed in one transaction of apt, or of dnf if dpkg has no packages on the host.

**Compared** are the installed version, dpkg's status and, if declared, the hold. Without `version` any installed
version matches and forge never upgrades. Whether a package counts as installed automatically is not compared:
`apt autoremove` takes away a declared package that came as a dependency, unless `apt-mark manual` was run. Versions are compared by the rules of Debian or rpm. For rpm `version` is
`EPOCH:VERSION-RELEASE`; a missing epoch is 0, and without a release any release matches. An unchanged step reports
`nginx 1.22.1-9 is installed`.

**A change** first waits for other holders of dpkg's and apt's locks and prints their pid and command line. It then
finishes an interrupted dpkg run (`dpkg --configure -a`, reinstallation of packages that dpkg marks for it, `apt-get -f
install`), updates apt's lists if they do not contain the wanted version, and installs without prompts. Modified
configuration files are preserved (`--force-confdef --force-confold`). A change removes no package except
those of a declared `family`. It
installs a lower version only if that exact version is declared; the plan shows this as a `downgrade`. Held packages are
released for the change and held again afterwards, even if the change fails; the reason of the step says so. If the host
loses its power in between, the next run on it holds them again. The action continues if the connection is lost. The
installed version decides whether it succeeded.

**`upstream`** is a version without epoch and revision: any revision of it matches. If apt's lists, or the metadata that
dnf keeps on the host, contain one, the plan shows which one will be installed: apt's candidate if that matches, else the
highest.

**`family`** names the packages that must have the same upstream version, by patterns such as `libnvidia-*`. Installed
packages of the family that have another one change in the same transaction: those that are offered in the declared
version are replaced, the others are removed. The plan lists each of them, and the transaction fails if it would remove
any other package. Holds of the family are released for the change, and set again on packages that remain. Removal of
the step removes the whole family. With dnf, packages of all module streams count as offered, and nothing is removed
unless its metadata has the declared packages in their version.

**Disruption** is D1 if an installed version changes or is removed, because maintainer scripts restart services.

**Missing from apt's lists:** with `update: if-missing` forge updates the lists first, and the plan says so; with
`update: never` the step is blocked unless an earlier step (a repository) may provide the package. If the change takes the
host out of service, and follows no reboot, the lists are updated before that, and a version that they still lack blocks
the step.

**Removal** removes exactly the named packages, also those that dpkg cannot configure. If apt would remove others too,
the step fails and lists them.
Configuration stays unless `purge: true`.

**With dnf** a hold is a `versionlock` entry of the installed version: an entry of another one, or of a pattern, does not
hold it. If that plugin is missing or disabled, a declared hold blocks the step. A plan does
not query dnf's repositories over the network: a version that no repository offers fails at installation. `update` has no effect, because
dnf refreshes its metadata itself. Name a package of another architecture `name.arch`. For packages that are installed
in several versions (kernels), one installed version that matches is enough. rpm saves modified configuration as
`.rpmsave`, even with `purge`. A `restart_on` detects a new package by its version only.
The proof below covers apt, and Debian's dnf 4.14 and rpm 4.18 on a host that claims to be Rocky Linux 9. It has not been
tested on a RHEL host.",
    fields: FIELDS,
    build,
    traits: KindTraits {
        reach: EffectReach::Unknown,
        packages: PackageListing::Listed,
        claim_probe: Some(claim_probe),
        ..KindTraits::DEFAULT
    },
};

fn claim_probe(name: &str) -> Option<Probe> {
    Some(Probe::Package { name: name.to_owned(), offers: AptOfferPolicy::Unneeded })
}

const FIELDS: &[FieldSpec] = &[
    FieldSpec::optional(
        "name",
        FieldType::Name,
        "One package, `name` or `name:architecture` (dnf: `name.arch`). Excludes `names`.",
    ),
    FieldSpec::optional(
        "names",
        FieldType::List(&FieldType::Name),
        "Several packages in one transaction. Excludes `name`.",
    ),
    FieldSpec::optional(
        "version",
        FieldType::Version,
        "The exact version, as dpkg or rpm prints it; applies to every name. Excludes `upstream`.",
    ),
    FieldSpec::optional(
        "upstream",
        FieldType::Version,
        "The version without epoch and revision, in any revision that the repository offers. Excludes `version`.",
    ),
    FieldSpec::optional(
        "family",
        FieldType::List(&FieldType::Text),
        "Patterns of the names of packages that belong to these, with `*` for any text.",
    ),
    FieldSpec::optional("hold", FieldType::Bool, "Hold the package at its version. Default: not compared."),
    FieldSpec::optional("purge", FieldType::Bool, "Whether removal deletes the configuration too. Default `false`."),
    FieldSpec::optional(
        "update",
        FieldType::Enum(&["if-missing", "never"]),
        "Whether to update apt's lists if they do not contain the package or version. Default `if-missing`.",
    ),
    package_lock::LOCK_TIMEOUT_FIELD,
];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    Ok(Box::new(PackageResource {
        names: parsing::parse_names(fields)?,
        version: parsing::parse_requirement(fields)?,
        family: parsing::parse_family(fields)?,
        hold: fields.get_bool("hold"),
        purge: fields.get_bool("purge").unwrap_or(false),
        update: fields.get_text("update") != Some("never"),
        lock_timeout: package_lock::parse_lock_timeout(fields),
        absent,
    }))
}

impl DeclaredResource for PackageResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.names.join(", ")
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        let differing = mark.member.as_ref().map(|name| vec![name.to_string()]);
        ChangedObject::Packages(differing.unwrap_or_else(|| self.names.clone()))
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes: Vec<Probe> = self.names.iter().map(|name| self.probe(name)).collect();
        probes.extend(self.family_probe());
        probes.push(Probe::PackageManager);
        probes
    }

    fn desired_value(&self) -> Value {
        self.with_version(json!({ "names": self.names, "hold": self.hold, "absent": self.absent }))
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        match self.absent {
            true => Vec::new(),
            false => self.names.iter().cloned().map(ProvidedItem::Package).collect(),
        }
    }

    /// Excludes the hold, which does not affect a running process.
    fn restart_input_value(&self) -> Value {
        self.with_version(json!({ "names": self.names, "absent": self.absent }))
    }

    /// dpkg rewrites a package's file list each time it unpacks the package; the files themselves keep the times of
    /// their build.
    fn restart_input_paths(&self) -> Vec<String> {
        self.names.iter().flat_map(|name| file_list_paths(name)).collect()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        self.names.iter().map(|name| (KIND.name, name.clone())).collect()
    }

    /// Excludes the other packages of the step.
    fn claimed_value(&self) -> Value {
        self.with_version(json!({ "hold": self.hold, "absent": self.absent }))
    }
}

impl PackageResource {
    /// Adds the declared version and, if there is one, the family.
    fn with_version(&self, mut value: Value) -> Value {
        match &self.version {
            Some(VersionRequirement::Upstream(version)) => value["upstream"] = json!(version),
            Some(VersionRequirement::Exact(version)) => value["version"] = json!(version),
            None => value["version"] = Value::Null,
        }
        if !self.family.is_empty() {
            value["family"] = json!(self.family);
        }
        value
    }
}

impl TypedResource for PackageResource {
    type Diff = PackageDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<PackageDiff> {
        let states: Result<Vec<_>, _> =
            self.names.iter().map(|name| Ok((name.as_str(), package_state(seen, &self.probe(name))?))).collect();
        let family = self.family_probe().map(|probe| family_state(seen, &probe)).transpose();
        match (states, family) {
            (Ok(states), Ok(family)) => assessment::assess_packages(self, &states, family, seen, cx),
            (Err(unknown), _) | (_, Err(unknown)) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &PackageDiff, _cx: &AssessmentContext<'_>) -> Action {
        let (body, explain) = match diff.manager {
            PackageManagerKind::Dpkg => (action_script::render_script(self, diff), action_script::EXPLAIN),
            PackageManagerKind::Rpm => (dnf::render_script(self, diff), dnf::EXPLAIN),
        };
        Action::Script(ActionScript { body, long: true, explain })
    }

    fn batch(&self, diff: &PackageDiff, _cx: &AssessmentContext<'_>) -> Option<ActionBatch> {
        action_script::batch_packages(self, diff)
    }

    fn undo(&self, diff: &PackageDiff) -> UndoEffect {
        undo::undo_packages(diff, self.purge)
    }
}

/// Directory of dpkg's file lists. For multi-arch packages the file name includes the architecture.
const DPKG_INFO_FOLDER: &str = "/var/lib/dpkg/info/";

pub(in crate::resource) fn file_list_paths(name: &str) -> Vec<String> {
    match name.contains(':') {
        true => vec![format!("{DPKG_INFO_FOLDER}{name}.list")],
        false => ["", ":amd64", ":arm64"].iter().map(|arch| format!("{DPKG_INFO_FOLDER}{name}{arch}.list")).collect(),
    }
}

/// Reports whether an input's path is a file list, which indicates an unpacked package instead of changed content.
pub(in crate::resource) fn is_file_list(path: &str) -> bool {
    path.starts_with(DPKG_INFO_FOLDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(entries: &[(&'static str, Value)]) -> String {
        build(&FieldValues(entries.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn package_names_are_validated() {
        let good =
            ["g++", "libc6:i386", "python3.11", "0ad", "linux-image-6.1.0-18-amd64", "NetworkManager", "glibc.i686"];
        for good in good {
            assert!(check_package_name(good).is_ok(), "{good}");
        }
        for bad in ["nginx-", "-y", "_a", "a=1", "", "libc6:", ":amd64", "a@b"] {
            assert_eq!(check_package_name(bad).unwrap_err().message, format!("`{bad}` is not a valid package name"));
        }
    }

    #[test]
    fn exactly_one_of_name_and_names_is_required() {
        assert_eq!(build_error(&[]), "`name` or `names` is required");
        assert_eq!(
            build_error(&[("name", json!("a")), ("names", json!(["b"]))]),
            "`name` and `names` exclude each other"
        );
        assert_eq!(build_error(&[("names", json!([]))]), "`names` is empty");
        assert_eq!(build_error(&[("names", json!(["a", "b", "a"]))]), "package `a` is listed twice");
        assert_eq!(
            build_error(&[("name", json!("a")), ("version", json!("1 2"))]),
            "`1 2` is not a valid package version"
        );
    }

    #[test]
    fn hold_does_not_affect_the_restart_input() {
        let value = |hold: bool| {
            let fields = [("name", json!("a")), ("hold", json!(hold))];
            build(&FieldValues(fields.into_iter().collect()), false).unwrap().restart_input_value()
        };
        assert_eq!(value(true), value(false));
    }
}
