//! Compares a declared file with the observed path. Shared by kinds that write whole files, such as `file` and `unit`.

use super::diff;
use super::shell::{self, FileWriteSpec};
use super::support::{bad_value, brought, join, octal, parent, path_state, sha256_hex};
use super::{Assessment, AssessmentContext, AttributeChange, EarlierStepEffects, ProvidedItem};
use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, SecretStore, UntrustedText, Value};
use crate::probe::{Observation, PathInfo, PathState, PathType, Probe, UnansweredReason};
use crate::script::ShellFragment;
use base64::Engine as _;
use secrecy::ExposeSecret;
use serde_json::json;

/// Number of digest characters in messages.
const SHOWN_DIGITS: usize = 12;

/// The content of a declared file, with secrets as placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileBody {
    bytes: Vec<u8>,
    secret: bool,
    /// Digest of `bytes`; differs from the file's digest if the content contains a secret.
    sha256: String,
}

impl FileBody {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let secret = std::str::from_utf8(&bytes).is_ok_and(SecretStore::mentions);
        Self { sha256: sha256_hex(&bytes), bytes, secret }
    }

    /// Builds a body from a checked value: text, or `{"base64": …}` for binary content.
    pub fn from_value(field: &str, value: &Value) -> Result<Self, Diag> {
        if let Some(text) = value.as_str() {
            return Ok(Self::new(text));
        }
        let encoded = value.get("base64").and_then(Value::as_str);
        encoded
            .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok())
            .map(Self::new)
            .ok_or_else(|| bad_value(format!("`{field}` is neither text nor base64")))
    }

    pub fn is_secret(&self) -> bool {
        self.secret
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the digest that the host compares with its own file, so that it sends the content only if it differs.
    /// Returns `None` if the body contains a secret: such content is never transferred.
    pub fn want(&self) -> Option<String> {
        (!self.secret).then(|| self.sha256.clone())
    }

    /// Returns the digest of the desired file, with secrets revealed.
    fn digest(&self, cx: &AssessmentContext<'_>) -> Result<String, UnansweredReason> {
        if !self.secret {
            return Ok(self.sha256.clone());
        }
        let text =
            std::str::from_utf8(&self.bytes).map_err(|_| UnansweredReason::new("binary content contains a secret"))?;
        let store = cx.secrets.ok_or_else(|| UnansweredReason::new("the secrets of the content are not available"))?;
        Ok(sha256_hex(store.reveal(text).expose_secret().as_bytes()))
    }

    /// Returns the value for the applied record: the digest, or the text with placeholders.
    pub fn desired(&self) -> Value {
        if self.secret {
            return json!({ "text": String::from_utf8_lossy(&self.bytes) });
        }
        json!({ "sha256": self.sha256, "bytes": self.bytes.len() })
    }

    fn describe(&self) -> String {
        describe(self.bytes.len() as u64, Some(&self.sha256), diff::is_binary(&self.bytes))
    }
}

fn describe(bytes: u64, sha256: Option<&str>, binary: bool) -> String {
    let kind = if binary { "binary, " } else { "" };
    let digest = sha256.and_then(|s| s.get(..SHOWN_DIGITS)).map(|s| format!(", sha256 {s}")).unwrap_or_default();
    format!("{kind}{bytes} bytes{digest}")
}

/// A declared file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileTarget {
    pub path: String,
    pub body: FileBody,
    pub owner: String,
    pub group: String,
    pub mode: u32,
}

/// Returns the probe of a path whose content is not compared.
pub(super) fn bare(path: &str) -> Probe {
    Probe::Path { path: path.to_owned(), want: None }
}

/// Returns the probe of the parent directory of `path`, with links resolved, for kinds that observe the path with a
/// probe of their own.
pub(super) fn lead(path: &str) -> Probe {
    bare(&format!("{}/.", parent(path).unwrap_or_default().trim_end_matches('/')))
}

/// Fails if users other than root can redirect `path`, according to the result of [`lead`].
pub(super) fn not_barred(seen: &Observation, path: &str) -> Result<(), UnansweredReason> {
    match path_state(seen, &lead(path)) {
        Err(unknown) if unknown.barred => Err(unknown),
        _ => Ok(()),
    }
}

impl FileTarget {
    pub fn probe(&self) -> Probe {
        Probe::Path { path: self.path.clone(), want: self.body.want() }
    }

    /// Returns the probes of the path and its parent directory.
    pub fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        probes.extend(parent(&self.path).map(bare));
        probes
    }

    /// Returns the action that installs the file. `validate` is a shell command that must accept the new content before
    /// it is installed; an empty command accepts everything.
    pub fn write(&self, cx: &AssessmentContext<'_>, backup: bool, validate: &str) -> ShellFragment {
        shell::write_file(&self.written(cx, backup, validate))
    }

    /// Returns the action that sets owner and mode of a file whose content matches.
    pub fn give(&self, cx: &AssessmentContext<'_>) -> ShellFragment {
        shell::give_file(&self.written(cx, false, ""))
    }

    fn written<'a>(&'a self, cx: &AssessmentContext<'a>, backup: bool, validate: &'a str) -> FileWriteSpec<'a> {
        FileWriteSpec {
            path: &self.path,
            owner: &self.owner,
            group: &self.group,
            mode: self.mode,
            run: cx.run,
            backup,
            validate,
            body: self.body.bytes(),
        }
    }

    pub fn desired(&self) -> Value {
        json!({
            "path": self.path,
            "content": self.body.desired(),
            "owner": self.owner,
            "group": self.group,
            "mode": octal(self.mode),
        })
    }

    /// Compares the file at the path with the declaration. `parent_made` means that the action creates the parent
    /// directory itself.
    pub fn judge(&self, seen: &Observation, cx: &AssessmentContext<'_>, parent_made: bool) -> Assessment {
        self.try_judge(seen, cx, parent_made).unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn try_judge(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
        parent_made: bool,
    ) -> Result<Assessment, UnansweredReason> {
        match path_state(seen, &self.probe())? {
            PathState::Absent if parent_made => Ok(self.create(cx)),
            PathState::Absent => match missing_parent(&self.path, seen, cx.predicted)? {
                ParentState::There => Ok(self.create(cx)),
                ParentState::Comes => Ok(self.create(cx).predicted()),
                ParentState::Blocks(judgement) => Ok(*judgement),
            },
            PathState::Present(info) => match info.kind {
                PathType::File => self.compare(info, cx),
                PathType::Directory => Ok(Assessment::blocked(
                    BlockClass::Host,
                    format!("`{}` is a directory", self.path),
                    type_basis(info),
                )
                .hint("a `file` step never replaces a directory; remove it with a `directory` step first")),
                PathType::Symlink | PathType::Other => Ok(self.replace(info, cx)),
            },
        }
    }

    fn create(&self, _cx: &AssessmentContext<'_>) -> Assessment {
        let reason = format!("file `{}` does not exist", self.path);
        Assessment::change(reason, self.all_new(), DisruptionClass::D0, json!({ "type": "absent" }))
    }

    fn replace(&self, info: &PathInfo, _cx: &AssessmentContext<'_>) -> Assessment {
        let what = type_words(info);
        let mut changes = vec![AttributeChange::new("type", Some(&what), Some("file"))];
        changes.extend(self.all_new());
        Assessment::change(format!("`{}` is a {what}", self.path), changes, DisruptionClass::D0, type_basis(info))
    }

    fn all_new(&self) -> Vec<AttributeChange> {
        vec![
            self.content_change(None),
            AttributeChange::new("owner", None, Some(&self.owner)),
            AttributeChange::new("group", None, Some(&self.group)),
            AttributeChange::new("mode", None, Some(&octal(self.mode))),
        ]
    }

    fn content_change(&self, info: Option<&PathInfo>) -> AttributeChange {
        if self.body.secret {
            return AttributeChange { secret: true, ..AttributeChange::new("content", None, None) };
        }
        let old: Option<&[u8]> = match info {
            None => Some(b""),
            Some(info) => info.body.as_ref().map(|body| body.raw().as_bytes()),
        };
        let from = info.map(|i| describe(i.size, i.sha256.as_deref(), false));
        let mut change = AttributeChange::new("content", from.as_deref(), Some(&self.body.describe()));
        let diff = old.and_then(|old| diff::unified(old, &self.body.bytes)).filter(|diff| !diff.is_empty());
        change.diff = diff.map(UntrustedText::from);
        change
    }

    fn compare(&self, info: &PathInfo, cx: &AssessmentContext<'_>) -> Result<Assessment, UnansweredReason> {
        let found =
            info.sha256.as_ref().ok_or_else(|| UnansweredReason::new(format!("`{}` could not be read", self.path)))?;
        let same = *found == self.body.digest(cx)?;
        let mut changes: Vec<AttributeChange> = (!same).then(|| self.content_change(Some(info))).into_iter().collect();
        changes.extend(ownership(info, &self.owner, &self.group, self.mode));
        let content = match self.body.secret {
            true => json!(if same { "as declared" } else { "different" }),
            false => json!(found),
        };
        let mut basis = json!({ "type": "file", "content": content });
        put_ownership(&mut basis, info);
        if changes.is_empty() {
            return Ok(Assessment::ok("content, owner and mode match", basis));
        }
        Ok(Assessment::change(differ(&changes), changes, DisruptionClass::D0, basis))
    }

    /// Checks that nothing exists at the path.
    pub fn judge_absent(&self, seen: &Observation) -> Assessment {
        let info = match path_state(seen, &bare(&self.path)) {
            Err(unknown) => return Assessment::unknown(&unknown),
            Ok(PathState::Absent) => {
                let reason = format!("file `{}` does not exist", self.path);
                return Assessment::ok(reason, json!({ "type": "absent" }));
            }
            Ok(PathState::Present(info)) => info,
        };
        if info.kind == PathType::Directory {
            let reason = format!("`{}` is a directory", self.path);
            return Assessment::blocked(BlockClass::Host, reason, type_basis(info))
                .hint("a `file` step never removes a directory; remove it with a `directory` step instead");
        }
        let from = match info.kind {
            PathType::File => format!("file, {}", describe(info.size, None, false)),
            _ => type_words(info),
        };
        let mut basis = type_basis(info);
        if let (PathType::File, false) = (info.kind, self.body.secret) {
            basis["content"] = json!(info.sha256);
        }
        let changes = vec![AttributeChange::new("file", Some(&from), None)];
        Assessment::change(format!("`{}` exists", self.path), changes, DisruptionClass::D0, basis)
    }
}

/// Returns the changes of owner, group and permission bits.
pub(super) fn ownership(info: &PathInfo, owner: &str, group: &str, mode: u32) -> Vec<AttributeChange> {
    let mut changes = Vec::new();
    if info.owner.raw() != owner {
        changes.push(AttributeChange::new("owner", Some(info.owner.raw()), Some(owner)));
    }
    if info.group.raw() != group {
        changes.push(AttributeChange::new("group", Some(info.group.raw()), Some(group)));
    }
    if info.mode != mode {
        changes.push(AttributeChange::new("mode", Some(&octal(info.mode)), Some(&octal(mode))));
    }
    changes
}

/// Reports whether only owner, group or mode differ, so that the content can stay.
pub(super) fn only_ownership(changes: &[AttributeChange]) -> bool {
    !changes.is_empty()
        && changes.iter().all(|c| matches!(c.attribute.as_str(), "owner" | "group" | "mode") && c.from.is_some())
}

pub(super) fn put_ownership(basis: &mut Value, info: &PathInfo) {
    basis["owner"] = json!(info.owner);
    basis["group"] = json!(info.group);
    basis["mode"] = json!(octal(info.mode));
}

/// Returns `content and mode differ`, `owner differs`, `groups differ`.
pub(super) fn differ(changes: &[AttributeChange]) -> String {
    let names: Vec<&str> = changes.iter().map(|c| c.attribute.as_str()).collect();
    let one = names.len() == 1 && !names[0].ends_with('s');
    format!("{} {}", join(&names), if one { "differs" } else { "differ" })
}

/// Returns the file type in words.
pub(super) fn type_words(info: &PathInfo) -> String {
    match (info.kind, &info.target) {
        (PathType::File, _) => "file".to_owned(),
        (PathType::Directory, _) => "directory".to_owned(),
        (PathType::Symlink, Some(target)) => format!("symbolic link to `{}`", target.raw()),
        (PathType::Symlink, None) => "symbolic link".to_owned(),
        (PathType::Other, _) => "special file".to_owned(),
    }
}

pub(super) fn type_basis(info: &PathInfo) -> Value {
    match &info.target {
        Some(target) => json!({ "type": info.kind, "target": target }),
        None => json!({ "type": info.kind }),
    }
}

/// State of the parent directory of a missing path.
pub(super) enum ParentState {
    There,
    /// An earlier step creates it.
    Comes,
    Blocks(Box<Assessment>),
}

/// Reports whether the parent directory of `path` exists or will be created by an earlier step.
pub(super) fn missing_parent(
    path: &str,
    seen: &Observation,
    predicted: Option<&EarlierStepEffects>,
) -> Result<ParentState, UnansweredReason> {
    let Some(parent) = parent(path) else { return Ok(ParentState::There) };
    match path_state(seen, &bare(parent))? {
        // The target of a link is not checked here: the action fails with a clear message if it is not a directory.
        PathState::Present(PathInfo { kind: PathType::Directory | PathType::Symlink, .. }) => Ok(ParentState::There),
        PathState::Present(info) => Ok(ParentState::Blocks(Box::new(
            Assessment::blocked(
                BlockClass::Host,
                format!("`{parent}` is a {}, not a directory", type_words(info)),
                json!({ "type": "absent", "parent": info.kind }),
            )
            .hint(format!("remove `{parent}` with a `file` step before this one, or choose another path")),
        ))),
        PathState::Absent if brought(predicted, &ProvidedItem::Path(parent.to_owned())) => Ok(ParentState::Comes),
        PathState::Absent => Ok(ParentState::Blocks(Box::new(
            Assessment::blocked(
                BlockClass::Host,
                format!("directory `{parent}` does not exist and no earlier step creates it"),
                json!({ "type": "absent", "parent": "absent" }),
            )
            .hint(format!(
                "add a `directory` step for `{parent}` before this one, or set `provides` in the step that creates it"
            )),
        ))),
    }
}
