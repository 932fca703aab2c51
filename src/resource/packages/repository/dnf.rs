//! A repository of dnf: its file and its key, tested separately before they are installed.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, Value};
use crate::probe::{DNF_CONF, DnfEntry, KeyFileState, Observation, Probe, ProbeReading, UnansweredReason};
use crate::resource::packages::apt_repository::action_script::{PUT_FUNCTION, append_file};
use crate::resource::packages::apt_repository::assessment::find_wrong_key;
use crate::resource::packages::apt_repository::declaration::root_file_target;
use crate::resource::packages::apt_repository::diff::{RemovedFile, RepositoryFile};
use crate::resource::packages::apt_repository::openpgp::is_armored;
use crate::resource::packages::package::dnf as dnf_script;
use crate::resource::packages::repository_fields::{RepositoryKey, parse_uris};
use crate::resource::shared::composite::label_changes;
use crate::resource::shared::file_target::{FileDiff, FileTarget, path_probe};
use crate::resource::shared::support::{join_words, key_state, required_text};
use crate::resource::shared::{package_lock, shell};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, FieldValues, ResourceDiff};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("repomd.xml", "the URI has no repository of dnf (`repodata/repomd.xml`), or the host cannot reach it"),
    ("Could not resolve", "the host cannot resolve the repository's host name"),
    ("Could not connect", "the host cannot connect to the repository"),
    ("SSL", "the host does not trust the repository's certificate; install `ca-certificates`"),
    ("GPG", "the repository is signed with a different key than the declared one"),
    ("dnf: not found", "the host has no dnf"),
    package_lock::EXPLAIN,
    ("No space left on device", "the file system is full; nothing was installed"),
];

const REPOSITORIES: &str = "/etc/yum.repos.d";
const KEYS: &str = "/etc/pki/rpm-gpg";

/// The part of a repository that a host with dnf gets.
#[derive(Debug)]
pub(super) struct DnfRepository {
    name: String,
    settings: DnfRepositorySettings,
    file: FileTarget,
    /// The key that forge installs.
    keyring: Option<FileTarget>,
    /// The existing key on the host.
    key_path: Option<String>,
    fingerprints: Option<Vec<String>>,
    lock_timeout: u64,
    pub absent: bool,
}

/// Content of the repository file, without its key.
#[derive(Debug, Default)]
struct DnfRepositorySettings {
    uris: Vec<String>,
    module_hotfixes: bool,
    signed_metadata: bool,
}

/// How a repository of dnf differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum DnfRepositoryDiff {
    Install(Box<DnfFilesDiff>),
    /// The files match, but the key on the host cannot be used, which an earlier step may change.
    Unblock {
        key: Option<String>,
    },
    Remove(Vec<RemovedFile>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DnfFilesDiff {
    file: Option<FileDiff>,
    key: Option<FileDiff>,
}

impl ResourceDiff for DnfRepositoryDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Install(files) => {
                let key = files.key.iter().flat_map(|key| label_changes("key", &key.render_digest_changes()));
                files.file.iter().flat_map(FileDiff::render_changes).chain(key).collect()
            }
            Self::Unblock { key } => vec![AttributeChange::new("key", None, key.as_deref())],
            Self::Remove(files) => files.iter().map(RemovedFile::render_change).collect(),
        }
    }
}

impl DnfRepositorySettings {
    fn from_fields(fields: &FieldValues) -> Result<Self, Diag> {
        let uris = parse_uris(fields)?;
        let module_hotfixes = fields.get_bool("module_hotfixes").unwrap_or(false);
        Ok(Self { uris, module_hotfixes, signed_metadata: fields.get_bool("signed_metadata").unwrap_or(false) })
    }

    /// Renders the repository file. `key` is the path of the key; without one, signatures are not checked.
    fn render_file(&self, name: &str, key: Option<&str>) -> String {
        let uris: Vec<String> = self.uris.iter().map(|uri| complete_file_uri(uri)).collect();
        let flag = |set: bool| if set { "1" } else { "0" };
        let mut text = format!(
            "# Written by forge.\n[{name}]\nname={name}\nbaseurl={}\nenabled=1\ngpgcheck={}\nrepo_gpgcheck={}\n",
            uris.join("\n  "),
            flag(key.is_some()),
            flag(self.signed_metadata && key.is_some()),
        );
        if self.module_hotfixes {
            text.push_str("module_hotfixes=1\n");
        }
        if let Some(key) = key {
            text.push_str(&format!("gpgkey=file://{key}\n"));
        }
        text
    }
}

/// Returns `file:/path`, as apt writes it, in the form that dnf reads.
fn complete_file_uri(uri: &str) -> String {
    match uri.strip_prefix("file:/") {
        Some(path) if !path.starts_with('/') => format!("file:///{path}"),
        _ => uri.to_owned(),
    }
}

impl DnfRepository {
    pub fn from_fields(fields: &FieldValues, absent: bool) -> Result<Self, Diag> {
        let name = required_text(fields, "name")?.to_owned();
        let key = RepositoryKey::from_fields(fields, |_| own_key_path(&name))?;
        let settings = match absent {
            true => DnfRepositorySettings::default(),
            false => DnfRepositorySettings::from_fields(fields)?,
        };
        if !absent {
            key.check_trust(fields.get_bool("trusted").unwrap_or(false))?;
        }
        let body = settings.render_file(&name, key.path());
        Ok(Self {
            file: root_file_target(format!("{REPOSITORIES}/{name}.repo"), body),
            name,
            settings,
            keyring: key.installed,
            key_path: key.existing,
            fingerprints: key.fingerprints,
            lock_timeout: package_lock::parse_lock_timeout(fields),
            absent,
        })
    }

    /// Returns the paths of its files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.file).chain(&self.keyring).map(|target| target.path.as_str())
    }

    pub fn probes(&self) -> Vec<Probe> {
        if self.absent {
            return self.removal_targets().iter().map(|target| path_probe(&target.path)).collect();
        }
        let mut probes = vec![self.file.probe(), Probe::DnfSources];
        probes.extend(self.keyring.as_ref().map(FileTarget::probe));
        probes.extend(self.key_path.as_ref().map(|path| Probe::Key { path: path.clone() }));
        probes
    }

    pub fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "absent": true }),
            false => json!({
                "file": self.file.desired_value(),
                "key": self.keyring.as_ref().map(FileTarget::desired_value),
                "fingerprints": self.fingerprints,
            }),
        }
    }

    /// Returns the files that a removal deletes.
    fn removal_targets(&self) -> [FileTarget; 2] {
        [self.file.path.clone(), own_key_path(&self.name)].map(|path| root_file_target(path, ""))
    }

    pub fn assess(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<DnfRepositoryDiff>, UnansweredReason> {
        if self.absent {
            return Ok(self.assess_removal(seen));
        }
        let file = self.file.assess(seen, cx, true);
        let key = self.keyring.as_ref().map(|key| key.assess(seen, cx, true));
        for judgement in [Some(&file), key.as_ref()].into_iter().flatten() {
            if matches!(judgement.verdict, StepVerdict::Blocked(_) | StepVerdict::Unknown) {
                return Ok(judgement.clone().with_diff(None));
            }
        }
        let basis = json!({ "file": file.basis, "key": key.as_ref().map(|key| key.basis.clone()) });
        let reasons = collect_reasons(&file, key.as_ref());
        let files = DnfFilesDiff { file: file.diff, key: key.and_then(|key| key.diff) };
        let diff = (!reasons.is_empty()).then(|| DnfRepositoryDiff::Install(Box::new(files)));
        let obstacle = match self.find_override(seen)? {
            Some(found) => Some(found),
            None => self.find_unusable_key(seen, cx)?,
        };
        Ok(match (obstacle, diff) {
            (Some((reason, _)), diff) if cx.predicted.is_some_and(|predicted| predicted.after.is_some()) => {
                let diff = diff.unwrap_or_else(|| DnfRepositoryDiff::Unblock { key: self.key_path.clone() });
                let reason = format!("{reason}; an earlier step may resolve this");
                Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted()
            }
            (Some((reason, hint)), _) => Assessment::blocked(BlockClass::Rule, reason, basis).hint(hint),
            (None, Some(diff)) => Assessment::differs(reasons.join("; "), diff, DisruptionClass::D0, basis),
            (None, None) if self.key_path.is_some() || self.keyring.is_some() => {
                Assessment::ok("the repository file and its key match", basis)
            }
            (None, None) => Assessment::ok("the repository file matches", basis),
        })
    }

    /// Returns why dnf does not use the repository file, with a hint: it reads other folders, or another section with
    /// the same id, of which it uses only one.
    fn find_override(&self, seen: &Observation) -> Result<Option<(String, String)>, UnansweredReason> {
        let ProbeReading::DnfSources(sources) = seen.get(&Probe::DnfSources)? else {
            return Err(UnansweredReason::new("the host answered another question"));
        };
        if let Some(folders) = &sources.folders
            && !folders.iter().any(|folder| folder == REPOSITORIES)
        {
            let reason =
                format!("dnf does not read `{REPOSITORIES}`: `reposdir` in `{DNF_CONF}` is `{}`", folders.join(" "));
            let hint = format!(
                "add `{REPOSITORIES}` to `reposdir` in a step before this one: `line: {{ path: {DNF_CONF}, … }}`"
            );
            return Ok(Some((reason, hint)));
        }
        let other = sources.entries.iter().find(|entry| entry.id == self.name && entry.file != self.file.path);
        Ok(other.map(|DnfEntry { file, id }| {
            let alone = file != DNF_CONF && sources.entries.iter().filter(|entry| entry.file == *file).count() == 1;
            let hint = match alone {
                true => format!("remove that file in a step before this one: `absent: {{ path: {file} }}`"),
                false => {
                    format!(
                        "remove only the section `[{id}]` from `{file}` on the host, or declare another `name` here"
                    )
                }
            };
            (format!("`{file}` declares the same id `{id}`, and dnf uses only one of them"), hint)
        }))
    }

    /// Returns why rpm cannot use the key, with a hint.
    fn find_unusable_key(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Option<(String, String)>, UnansweredReason> {
        let path = self.key_path.as_deref();
        if let Some(found) = find_wrong_key(path, self.fingerprints.as_deref(), seen, cx)? {
            return Ok(Some(found));
        }
        let installed = self.keyring.as_ref().map(|key| (key.path.as_str(), is_armored(key.body.bytes())));
        let existing = match path.map(|path| Probe::Key { path: path.to_owned() }) {
            Some(probe) => match key_state(seen, &probe)? {
                KeyFileState::Present(bytes) => path.map(|path| (path, is_armored(bytes))),
                KeyFileState::Absent | KeyFileState::Unfit => None,
            },
            None => None,
        };
        Ok(installed.or(existing).filter(|(_, armored)| !armored).map(|(path, _)| {
            let hint = "rpm reads armored keys only: convert it with `gpg --enarmor`".to_owned();
            (format!("key `{path}` is not armored text"), hint)
        }))
    }

    fn assess_removal(&self, seen: &Observation) -> Assessment<DnfRepositoryDiff> {
        let mut files = Vec::new();
        for (target, part) in self.removal_targets().into_iter().zip([RepositoryFile::Source, RepositoryFile::Key]) {
            let judgement = target.assess_absent(seen);
            match (judgement.verdict, &judgement.diff) {
                (StepVerdict::Ok, _) => {}
                (StepVerdict::Change, Some(FileDiff::Remove { before })) => {
                    files.push(RemovedFile { path: target.path, part, before: before.label.clone() });
                }
                _ => return judgement.with_diff(None),
            }
        }
        let found: Vec<String> = files.iter().map(|file| format!("`{}`", file.path)).collect();
        let basis = json!({ "there": found });
        if files.is_empty() {
            return Assessment::ok("neither repository file nor key exists", basis);
        }
        let reason = format!("{} {}", join_words(&found), if found.len() == 1 { "exists" } else { "exist" });
        Assessment::differs(reason, DnfRepositoryDiff::Remove(files), DisruptionClass::D0, basis)
    }

    pub fn render_script(&self, diff: &DnfRepositoryDiff) -> ShellFragment {
        match diff {
            DnfRepositoryDiff::Install(_) | DnfRepositoryDiff::Unblock { .. } => self.render_install(),
            DnfRepositoryDiff::Remove(_) => {
                let words = self.removal_targets().into_iter().map(|target| target.path);
                let opened = words.fold(shell::open_action(), ShellFragment::word);
                shell::close_action(
                    opened.code("\nfor path; do rm -f -- \"$path\" || fail \"cannot remove $path\"; done\n"),
                )
            }
        }
    }

    fn render_install(&self) -> ShellFragment {
        let trial_key = self.keyring.as_ref().map(|_| format!("/run/forge-dnf-{}/key.asc", self.name));
        let trial = self.settings.render_file(&self.name, trial_key.as_deref().or(self.key_path.as_deref()));
        let action =
            dnf_script::open_dnf_script(self.lock_timeout, "").code("set --").word(&self.name).code("\nname=$1\n");
        let action = append_file(action.code(PREPARE_TRIAL), trial.as_bytes(), "trial/trial.repo");
        let action = append_file(action, self.file.body.bytes(), "live.repo");
        let action = match &self.keyring {
            Some(key) => append_file(action, key.body.bytes(), "key.asc"),
            None => action,
        };
        let action = action.code(TEST_REPOSITORY).code(PUT_FUNCTION);
        let action = match &self.keyring {
            Some(key) => action.code("put \"$dir/key.asc\"").word(&key.path).code("\n"),
            None => action,
        };
        shell::close_action(action.code("put \"$dir/live.repo\"").word(&self.file.path).code("\n"))
    }
}

fn own_key_path(name: &str) -> String {
    format!("{KEYS}/RPM-GPG-KEY-{name}")
}

/// Returns why the files differ.
fn collect_reasons(file: &Assessment<FileDiff>, key: Option<&Assessment<FileDiff>>) -> Vec<String> {
    let key = key.and_then(|judgement| {
        // The reason of a new file names its path.
        let prefix = if judgement.diff.as_ref()?.is_creation() { "" } else { "key " };
        Some(format!("{prefix}{}", judgement.reason.raw()))
    });
    file.diff.is_some().then(|| file.reason.raw().to_owned()).into_iter().chain(key).collect()
}

/// Reads `$name`.
const PREPARE_TRIAL: &str = r#"
dir=/run/forge-dnf-$name
rm -rf -- "$dir"
mkdir -m 755 -- "$dir" "$dir/trial" || fail "cannot make $dir"
trap 'rm -rf -- "$dir"' EXIT
trap 'exit 143' HUP INT TERM
"#;

/// A cache of its own: dnf would otherwise keep the metadata of a repository that is never installed.
const TEST_REPOSITORY: &str = r#"
run_dnf --setopt="reposdir=$dir/trial" --setopt="cachedir=$dir/cache" --disablerepo='*' --enablerepo="$name" makecache ||
  fail "dnf cannot use the repository: nothing was put in place"
"#;
