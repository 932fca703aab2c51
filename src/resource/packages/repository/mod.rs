//! `repository`: a package repository with its key, for the package manager of the host.

mod dnf;

use crate::diag::{Diag, DiagCode};
use crate::model::{BlockClass, UndoEffect, Value};
use crate::probe::{Observation, PackageManagerKind, Probe, UnansweredReason};
use crate::resource::packages::apt_repository::build_apt_repository;
use crate::resource::packages::apt_repository::declaration::AptRepositoryResource;
use crate::resource::packages::apt_repository::diff::AptRepositoryDiff;
use crate::resource::shared::package_lock;
use crate::resource::shared::support::{manager_state, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use dnf::{DnfRepository, DnfRepositoryDiff};
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "repository",
    summary: "A package repository with its key, for apt or dnf.",
    example: include_str!("../../examples/repository.yaml"),
    doc: "\
The package manager of the host decides. With apt it is [`apt_repository`](apt_repository.md), with the same files,
checks and fields. With dnf it writes `/etc/yum.repos.d/NAME.repo` and, unless the key is already on the host
(`key_path`), `/etc/pki/rpm-gpg/RPM-GPG-KEY-NAME`.

**Compares** content, owner and mode of the files; with apt, also the age of its index. dnf keeps no index of its own
time: it refreshes metadata when it needs them, so an unchanged step reports `the repository file and its key match`.

**With dnf, a change** first tests the new file and key separately from the installed ones, with a `dnf makecache` of
this repository alone. They are installed only if that succeeds. Signatures of packages are always checked; the
signature of the metadata only with `signed_metadata`, because not every repository has one. rpm reads armored keys
only: another key blocks the step.

**Another section with the same id**, in another file or in `/etc/dnf/dnf.conf`, blocks the step, as another source of
the same URI and suite does with apt: dnf uses only one of them, and a disabled one disables the repository. So does a
`reposdir` in `/etc/dnf/dnf.conf` without `/etc/yum.repos.d`.

**`fingerprint`** pins the key, **`trusted: true`** disables signature checks, and credentials in `uris` are rejected, as
for `apt_repository`.

**A repository that declares nothing for the host's package manager** (no `suites` for apt) blocks the step.

**Removal** removes the files. Installed packages and keys that rpm imported stay.",
    fields: FIELDS,
    build,
    traits: KindTraits::DEFAULT,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Base name of the files, and dnf's id of the repository."),
    FieldSpec::optional(
        "uris",
        FieldType::List(&FieldType::Line),
        "Repository URIs: `https://host/path`, `file:/path` (`file:///path` for dnf). Required.",
    ),
    FieldSpec::optional(
        "suites",
        FieldType::List(&FieldType::Line),
        "For apt: suites, or exact paths that end with `/`. Required there.",
    ),
    FieldSpec::optional(
        "components",
        FieldType::List(&FieldType::Line),
        "For apt: components. Required unless the suites are exact paths.",
    ),
    FieldSpec::optional(
        "architectures",
        FieldType::List(&FieldType::Name),
        "For apt: architectures. Default: those of the host.",
    ),
    FieldSpec::optional(
        "types",
        FieldType::List(&FieldType::Enum(&["deb", "deb-src"])),
        "For apt: archive types. Default `[deb]`.",
    ),
    FieldSpec::optional(
        "module_hotfixes",
        FieldType::Bool,
        "For dnf: offer packages of this repository although a module stream hides them. Default `false`.",
    ),
    FieldSpec::optional(
        "signed_metadata",
        FieldType::Bool,
        "For dnf: also check the signature of the metadata (`repo_gpgcheck`). Default `false`. apt always does.",
    ),
    FieldSpec::optional(
        "key",
        FieldType::LocalFile,
        "Key file in the inventory's tree. Excludes `key_text` and `key_path`.",
    ),
    FieldSpec::optional("key_text", FieldType::Text, "The key as armored text. Excludes `key` and `key_path`."),
    FieldSpec::optional(
        "key_path",
        FieldType::Path,
        "Path of an existing key on the host. Excludes `key` and `key_text`.",
    ),
    FieldSpec::optional("fingerprint", FieldType::Line, "Full fingerprints of the primary keys, separated by commas."),
    FieldSpec::optional("trusted", FieldType::Bool, "Skip signature checks. Default `false`."),
    package_lock::LOCK_TIMEOUT_FIELD,
];

#[derive(Debug)]
struct RepositoryResource {
    name: String,
    /// `None` if no suites are declared.
    apt: Option<AptRepositoryResource>,
    dnf: DnfRepository,
}

/// How a repository differs, by the package manager of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum RepositoryDiff {
    Apt(AptRepositoryDiff),
    Dnf(DnfRepositoryDiff),
}

impl ResourceDiff for RepositoryDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Apt(diff) => diff.render_changes(),
            Self::Dnf(diff) => diff.render_changes(),
        }
    }
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    let for_apt = absent || fields.contains("suites");
    if !for_apt && let Some(field) = ["components", "architectures", "types"].iter().find(|name| fields.contains(name))
    {
        return Err(Diag::error(DiagCode::MissingKey, format!("`{field}` needs `suites`")));
    }
    let apt = for_apt.then(|| build_apt_repository(fields, absent)).transpose()?;
    let dnf = DnfRepository::from_fields(fields, absent)?;
    Ok(Box::new(RepositoryResource { name, apt, dnf }))
}

impl RepositoryResource {
    fn assess_manager(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<RepositoryDiff>, UnansweredReason> {
        let manager = manager_state(seen, &Probe::PackageManager)?.kind;
        Ok(match (manager, &self.apt) {
            (PackageManagerKind::Dpkg, Some(apt)) => apt.diff(seen, cx).map_diff(RepositoryDiff::Apt),
            (PackageManagerKind::Dpkg, None) => Assessment::blocked(
                BlockClass::Declaration,
                "the host has apt, and the repository declares no `suites`",
                json!({ "manager": manager }),
            )
            .hint("declare `suites`; for a repository without them, `[\"/\"]`"),
            (PackageManagerKind::Rpm, _) => self.dnf.assess(seen, cx)?.map_diff(RepositoryDiff::Dnf),
        })
    }
}

impl DeclaredResource for RepositoryResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![Probe::PackageManager];
        for probe in self.apt.iter().flat_map(DeclaredResource::probes).chain(self.dnf.probes()) {
            if !probes.contains(&probe) {
                probes.push(probe);
            }
        }
        probes
    }

    fn desired_value(&self) -> Value {
        json!({
            "name": self.name,
            "apt": self.apt.as_ref().map(DeclaredResource::desired_value),
            "dnf": self.dnf.desired_value(),
            "absent": self.dnf.absent,
        })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        match self.dnf.absent {
            true => Vec::new(),
            false => self.restart_input_paths().into_iter().map(ProvidedItem::Path).collect(),
        }
    }

    fn restart_input_paths(&self) -> Vec<String> {
        let apt = self.apt.iter().flat_map(DeclaredResource::restart_input_paths);
        apt.chain(self.dnf.paths().map(str::to_owned)).collect()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        self.restart_input_paths().into_iter().map(|path| ("path", path)).collect()
    }
}

impl TypedResource for RepositoryResource {
    type Diff = RepositoryDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<RepositoryDiff> {
        self.assess_manager(seen, cx).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &RepositoryDiff, cx: &AssessmentContext<'_>) -> Action {
        match (diff, &self.apt) {
            (RepositoryDiff::Apt(diff), Some(apt)) => apt.act(diff, cx),
            (RepositoryDiff::Apt(_), None) => Action::fail("the repository is not declared for apt"),
            (RepositoryDiff::Dnf(diff), _) => {
                Action::Script(ActionScript { body: self.dnf.render_script(diff), long: true, explain: dnf::EXPLAIN })
            }
        }
    }

    fn undo(&self, _diff: &RepositoryDiff) -> UndoEffect {
        UndoEffect::restore_paths(self.restart_input_paths()).leaving("the lists of packages, until they are updated")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(more: &[(&'static str, Value)]) -> String {
        let mut fields = FieldValues::default();
        fields.0.insert("name", json!("extra"));
        fields.0.extend(more.iter().cloned());
        build(&fields, false).unwrap_err().message
    }

    #[test]
    fn fields_for_one_manager_are_checked_without_the_other() {
        assert_eq!(build_error(&[]), "a repository needs `uris`");
        let uris = ("uris", json!(["https://mirror.example/rpm/"]));
        assert_eq!(build_error(std::slice::from_ref(&uris)), "a repository needs `key`, `key_text` or `key_path`");
        assert_eq!(build_error(&[uris.clone(), ("components", json!(["main"]))]), "`components` needs `suites`");
        let account = [("uris", json!(["https://me:pass@mirror.example/"])), ("trusted", json!(true))];
        assert_eq!(
            build_error(&account),
            "`uris` contains credentials, but the file is readable by every user on the host"
        );
        let pinned = [uris.clone(), ("trusted", json!(true)), ("fingerprint", json!("A".repeat(40)))];
        assert_eq!(build_error(&pinned), "`fingerprint` needs a key");
        assert_eq!(
            build_error(&[uris, ("trusted", json!(true)), ("suites", json!([]))]),
            "a repository needs `suites`"
        );
    }
}
