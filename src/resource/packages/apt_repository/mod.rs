//! `apt_repository`: an apt source with its key and index.

pub(in crate::resource::packages) mod action_script;
mod apt_lists;
pub(in crate::resource::packages) mod assessment;
pub(in crate::resource::packages) mod declaration;
pub(in crate::resource::packages) mod diff;
pub(in crate::resource::packages) mod openpgp;

use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::packages::repository_fields::{RepositoryKey, check_plain_word, parse_uris};
use crate::resource::shared::file_target::FileTarget;
use crate::resource::shared::package_lock;
use crate::resource::shared::support::{bad_value, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues,
    ProvidedItem, Resource, ResourceKind, TypedResource,
};
use declaration::{AptRepositoryResource, AptSourceSpec, root_file_target};
use diff::AptRepositoryDiff;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "apt_repository",
    summary: "An apt repository with its key and index.",
    example: include_str!("../../examples/apt_repository.yaml"),
    doc: "\
Writes `/etc/apt/sources.list.d/NAME.sources` and its signing key, `/etc/apt/keyrings/NAME.asc` (`.gpg` if the key is
not armored). The key is `key` (a file in the inventory's tree), `key_text`, or `key_path` (a key that already exists
on the host).

**Compares** content, owner and mode of both files, and checks that apt has an index of every suite that is not older
than the files. An unchanged step reports `the source, its key and its index match`. apt's own configuration is not
read: `Dir::Etc::sourceparts` can make apt read its sources from another directory.

**`fingerprint`** pins the key: the key file must contain exactly the listed keys. `key` and `key_text` are checked
when forge reads the inventory. A key on the host with other fingerprints blocks the step.

**A change** first tests the new source and key separately from the installed ones, with an `apt-get update` of this
source alone. They are installed only if that succeeds, so a wrong key or URI never breaks apt for other sources. A
later `package` step of the same run uses the new index.

**Another file that declares the same URI and suite** blocks the step, and the message names that file: apt fails for
all sources if two entries disagree on the key.

**`trusted: true`** disables signature checks: whoever controls the URI can install any package. It is meant for
`file:` URIs. Without it a repository needs a key. Put credentials into `/etc/apt/auth.conf.d`.

**Removal** removes the source and its key. Installed packages stay.

[`repository`](repository.md) declares the same and also works on hosts with dnf.",
    fields: FIELDS,
    build,
    traits: KindTraits::DEFAULT,
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Base name of the files: letters, digits, `.`, `_` and `-`."),
    FieldSpec::optional(
        "uris",
        FieldType::List(&FieldType::Line),
        "Repository URIs: `https://host/path`, `file:/path`. Required.",
    ),
    FieldSpec::optional(
        "suites",
        FieldType::List(&FieldType::Line),
        "Suites, or exact paths that end with `/`. Required.",
    ),
    FieldSpec::optional(
        "components",
        FieldType::List(&FieldType::Line),
        "Components. Required unless the suites are exact paths.",
    ),
    FieldSpec::optional(
        "architectures",
        FieldType::List(&FieldType::Name),
        "Architectures. Default: those of the host.",
    ),
    FieldSpec::optional(
        "types",
        FieldType::List(&FieldType::Enum(&["deb", "deb-src"])),
        "Archive types. Default `[deb]`.",
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

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    Ok(Box::new(build_apt_repository(fields, absent)?))
}

/// Builds the part of a repository that a host with apt gets.
pub(in crate::resource::packages) fn build_apt_repository(
    fields: &FieldValues,
    absent: bool,
) -> Result<AptRepositoryResource, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err(bad_value(format!("`{name}` is not a valid source name: apt would ignore its file"))
            .with_field("name")
            .hint("use letters, digits, `.`, `_` and `-` only"));
    }
    let own_path =
        |body: &[u8]| format!("/etc/apt/keyrings/{name}.{}", if openpgp::is_armored(body) { "asc" } else { "gpg" });
    let key = RepositoryKey::from_fields(fields, own_path)?;
    let what = if absent { AptSourceSpec::default() } else { parse_source_spec(fields)? };
    if !absent {
        key.check_trust(what.trusted)?;
    }
    let sources = root_file_target(format!("/etc/apt/sources.list.d/{name}.sources"), what.render_source(key.path()));
    Ok(AptRepositoryResource {
        name,
        what,
        sources,
        keyring: key.installed,
        key_path: key.existing,
        fingerprints: key.fingerprints,
        lock_timeout: package_lock::parse_lock_timeout(fields),
        absent,
    })
}

fn parse_source_spec(fields: &FieldValues) -> Result<AptSourceSpec, Diag> {
    let list = |name: &str| fields.get_text_list(name).unwrap_or_default();
    let types = fields.get_text_list("types").unwrap_or_else(|| vec!["deb".to_owned()]);
    let uris = parse_uris(fields)?;
    let (suites, components) = (list("suites"), list("components"));
    for (field, words) in [("suites", &suites), ("types", &types)] {
        if words.is_empty() {
            return Err(Diag::error(DiagCode::MissingKey, format!("a repository needs `{field}`")));
        }
    }
    let fields_of = [("suites", &suites), ("components", &components)];
    for (field, word) in fields_of.iter().flat_map(|(field, words)| words.iter().map(move |word| (field, word))) {
        check_plain_word(field, word)?;
    }
    match (suites.iter().all(|suite| suite.ends_with('/')), components.is_empty()) {
        (true, false) => Err(bad_value("a suite that ends with `/` is an exact path and cannot have components")),
        (false, true) => Err(Diag::error(DiagCode::MissingKey, "a repository needs `components`")
            .hint("or use an exact path, a suite that ends with `/`: `suites: [\"./\"]`")),
        _ => Ok(AptSourceSpec {
            uris,
            suites,
            components,
            architectures: list("architectures"),
            types,
            trusted: fields.get_bool("trusted").unwrap_or(false),
        }),
    }
}

impl DeclaredResource for AptRepositoryResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent {
            return self
                .removal_targets()
                .iter()
                .map(|target| crate::resource::shared::file_target::path_probe(&target.path))
                .collect();
        }
        let mut probes = vec![self.sources.probe(), Probe::AptSources];
        probes.extend(self.keyring.as_ref().map(FileTarget::probe));
        probes.extend(self.key_probe());
        probes.extend(
            apt_lists::index_paths(&self.what)
                .into_iter()
                .flatten()
                .map(|path| crate::resource::shared::file_target::path_probe(&path)),
        );
        probes
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "name": self.name, "absent": true }),
            false => json!({
                "name": self.name,
                "sources": self.sources.desired_value(),
                "key": self.keyring.as_ref().map(FileTarget::desired_value),
                "fingerprints": self.fingerprints,
            }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        match self.absent {
            true => Vec::new(),
            false => self.restart_input_paths().into_iter().map(ProvidedItem::Path).collect(),
        }
    }

    fn restart_input_paths(&self) -> Vec<String> {
        [Some(&self.sources), self.keyring.as_ref()].into_iter().flatten().map(|target| target.path.clone()).collect()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        self.restart_input_paths().into_iter().map(|path| ("path", path)).collect()
    }
}

impl TypedResource for AptRepositoryResource {
    type Diff = AptRepositoryDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<AptRepositoryDiff> {
        match self.absent {
            true => assessment::assess_removal(self, seen),
            false => assessment::assess_presence(self, seen, cx),
        }
        .unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &AptRepositoryDiff, _cx: &AssessmentContext<'_>) -> Action {
        let body = match diff {
            AptRepositoryDiff::Install(_) | AptRepositoryDiff::Unblock { .. } => action_script::render_install(self),
            AptRepositoryDiff::Remove(_) => action_script::render_removal(self),
        };
        Action::Script(ActionScript { body, long: true, explain: action_script::EXPLAIN })
    }

    fn undo(&self, _diff: &AptRepositoryDiff) -> UndoEffect {
        UndoEffect::restore_paths(self.restart_input_paths()).leaving("the lists of packages, until they are updated")
    }
}

#[cfg(test)]
mod tests;
