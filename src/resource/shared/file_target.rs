//! Compares a declared file with the observed path. Shared by kinds that write whole files, such as `file` and `unit`.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, SecretStore, UndoEffect, UntrustedText, Value};
use crate::probe::{Observation, PathInfo, PathState, PathType, Probe, UnansweredReason};
use crate::resource::shared::accounts::{AccountName, account_probes, require_accounts};
use crate::resource::shared::diff;
use crate::resource::shared::shell::{self, FileWriteSpec};
use crate::resource::shared::support::{
    bad_value, format_mode, join_words, parent_path, path_state, sha256_hex, will_be_provided,
};
use crate::resource::{
    Assessment, AssessmentContext, AttributeChange, ChangeAspect, EarlierStepEffects, NewPath, ProvidedItem,
    ResourceDiff, ValueChange,
};
use crate::script::ShellFragment;
use base64::Engine as _;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::json;

/// Number of digest characters in messages.
const SHOWN_DIGITS: usize = 12;

/// The content of a declared file, with secrets as placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::resource) struct FileBody {
    bytes: Vec<u8>,
    secret: bool,
    /// Digest of `bytes`; differs from the file's digest if the content contains a secret.
    sha256: String,
}

impl FileBody {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let secret = std::str::from_utf8(&bytes).is_ok_and(SecretStore::has_placeholder);
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
    pub fn digest_for_diff(&self) -> Option<String> {
        (!self.secret).then(|| self.sha256.clone())
    }

    /// Returns the digest of the desired file, with secrets revealed.
    fn desired_digest(&self, cx: &AssessmentContext<'_>) -> Result<String, UnansweredReason> {
        if !self.secret {
            return Ok(self.sha256.clone());
        }
        let text =
            std::str::from_utf8(&self.bytes).map_err(|_| UnansweredReason::new("binary content contains a secret"))?;
        let store = cx.secrets.ok_or_else(|| UnansweredReason::new("the secrets of the content are not available"))?;
        Ok(sha256_hex(store.reveal_placeholders(text).expose_secret().as_bytes()))
    }

    /// Returns the value for the applied record: the digest, or the text with placeholders.
    pub fn desired_value(&self) -> Value {
        if self.secret {
            return json!({ "text": String::from_utf8_lossy(&self.bytes) });
        }
        json!({ "sha256": self.sha256, "bytes": self.bytes.len() })
    }

    fn describe(&self) -> String {
        describe_bytes(self.bytes.len() as u64, Some(&self.sha256), diff::is_binary(&self.bytes))
    }
}

fn describe_bytes(bytes: u64, sha256: Option<&str>, binary: bool) -> String {
    let kind = if binary { "binary, " } else { "" };
    let digest = sha256.and_then(|s| s.get(..SHOWN_DIGITS)).map(|s| format!(", sha256 {s}")).unwrap_or_default();
    format!("{kind}{bytes} bytes{digest}")
}

/// A declared file.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::resource) struct FileTarget {
    pub path: String,
    pub body: FileBody,
    pub owner: String,
    pub group: String,
    pub mode: u32,
}

/// Returns the probe of a path whose content is not compared.
pub(in crate::resource) fn path_probe(path: &str) -> Probe {
    Probe::Path { path: path.to_owned(), want: None }
}

/// Returns the probe of the parent directory of `path`, with links resolved, for kinds that observe the path with a
/// probe of their own.
pub(in crate::resource) fn resolved_parent_probe(path: &str) -> Probe {
    path_probe(&format!("{}/.", parent_path(path).unwrap_or_default().trim_end_matches('/')))
}

/// Fails if users other than root can redirect `path`, according to the result of [`resolved_parent_probe`].
pub(in crate::resource) fn check_parent_trusted(seen: &Observation, path: &str) -> Result<(), UnansweredReason> {
    match path_state(seen, &resolved_parent_probe(path)) {
        Err(unknown) if unknown.barred => Err(unknown),
        _ => Ok(()),
    }
}

impl FileTarget {
    pub fn probe(&self) -> Probe {
        Probe::Path { path: self.path.clone(), want: self.body.digest_for_diff() }
    }

    /// Returns the probes of the path, its parent directory and its owners.
    pub fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.probe()];
        probes.extend(parent_path(&self.path).map(path_probe));
        probes.extend(account_probes(&self.list_owners()));
        probes
    }

    fn list_owners(&self) -> [AccountName; 2] {
        AccountName::list_owners(&self.owner, &self.group)
    }

    /// Returns the action that installs the file. `validate` is a shell command that must accept the new content before
    /// it is installed; an empty command accepts everything.
    pub fn render_write(&self, cx: &AssessmentContext<'_>, backup: bool, validate: &str) -> ShellFragment {
        shell::write_file(&self.write_spec(cx, backup, validate))
    }

    /// Returns the file that is made if nothing is at the path.
    pub fn describe_new_file(&self, cx: &AssessmentContext<'_>) -> NewPath {
        NewPath {
            path: self.path.clone(),
            owner: self.owner.clone(),
            group: self.group.clone(),
            mode: self.mode,
            run: cx.run.to_owned(),
            body: Some(self.body.bytes().to_vec()),
        }
    }

    /// Returns the action that sets owner and mode of a file whose content matches.
    pub fn render_ownership_change(&self, cx: &AssessmentContext<'_>) -> ShellFragment {
        shell::render_ownership_change(&self.write_spec(cx, false, ""))
    }

    fn write_spec<'a>(&'a self, cx: &AssessmentContext<'a>, backup: bool, validate: &'a str) -> FileWriteSpec<'a> {
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

    /// Returns how a change of the file is undone. A copy is kept unless the step declares that it wants none.
    pub fn undo_write(&self, backup: bool, diff: &FileDiff) -> UndoEffect {
        match backup {
            true => restore_path(&self.path, diff.former_type()),
            false => UndoEffect::irreversible("the step declares `backup: false`"),
        }
    }

    pub fn desired_value(&self) -> Value {
        json!({
            "path": self.path,
            "content": self.body.desired_value(),
            "owner": self.owner,
            "group": self.group,
            "mode": format_mode(self.mode),
        })
    }

    /// Compares the file at the path with the declaration. `parent_made` means that the action creates the parent
    /// directory itself.
    pub fn assess(&self, seen: &Observation, cx: &AssessmentContext<'_>, parent_made: bool) -> Assessment<FileDiff> {
        let judgement = self.try_assess(seen, cx, parent_made).unwrap_or_else(|unknown| Assessment::unknown(&unknown));
        require_accounts(judgement, &self.list_owners(), seen, cx)
    }

    fn try_assess(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
        parent_made: bool,
    ) -> Result<Assessment<FileDiff>, UnansweredReason> {
        match path_state(seen, &self.probe())? {
            PathState::Absent if parent_made => Ok(self.assess_missing()),
            PathState::Absent => match check_parent(&self.path, seen, cx.predicted)? {
                ParentState::There => Ok(self.assess_missing()),
                ParentState::Comes => Ok(self.assess_missing().mark_predicted()),
                ParentState::Blocks(parent) => Ok(parent.block()),
            },
            PathState::Present(info) => match info.kind {
                PathType::File => self.assess_existing(info, cx),
                PathType::Directory => Ok(Assessment::blocked(
                    BlockClass::Host,
                    format!("`{}` is a directory", self.path),
                    type_basis(info),
                )
                .hint("a `file` step never replaces a directory: move its contents and remove it")),
                PathType::Symlink | PathType::Other => Ok(self.assess_replacement(info)),
            },
        }
    }

    fn assess_missing(&self) -> Assessment<FileDiff> {
        let reason = format!("file `{}` does not exist", self.path);
        Assessment::differs(reason, self.creation_diff(None), DisruptionClass::D0, json!({ "type": "absent" }))
    }

    fn assess_replacement(&self, info: &PathInfo) -> Assessment<FileDiff> {
        let former = FormerPath { kind: info.kind, label: describe_type(info) };
        let reason = format!("`{}` is a {}", self.path, former.label);
        Assessment::differs(reason, self.creation_diff(Some(former)), DisruptionClass::D0, type_basis(info))
    }

    /// Returns the diff of a file that does not exist, or of `other`, which it replaces.
    fn creation_diff(&self, other: Option<FormerPath>) -> FileDiff {
        FileDiff::Write {
            other,
            content: self.content_diff(None),
            ownership: OwnershipDiff::of_new_file(&self.owner, &self.group, self.mode),
        }
    }

    fn content_diff(&self, info: Option<&PathInfo>) -> ContentDiff {
        if self.body.secret {
            return ContentDiff { secret: true, ..ContentDiff::default() };
        }
        let old: Option<&[u8]> = match info {
            None => Some(b""),
            Some(info) => info.body.as_ref().map(|body| body.raw().as_bytes()),
        };
        let diff = old.and_then(|old| diff::unified_diff(old, &self.body.bytes)).filter(|diff| !diff.is_empty());
        ContentDiff {
            from: info.map(|info| describe_bytes(info.size, info.sha256.as_deref(), false)),
            to: Some(self.body.describe()),
            lines: diff.map(UntrustedText::from),
            secret: false,
        }
    }

    fn assess_existing(
        &self,
        info: &PathInfo,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<FileDiff>, UnansweredReason> {
        let found =
            info.sha256.as_ref().ok_or_else(|| UnansweredReason::new(format!("`{}` could not be read", self.path)))?;
        let same = *found == self.body.desired_digest(cx)?;
        let ownership = OwnershipDiff::compare(info, &self.owner, &self.group, self.mode);
        let content = match self.body.secret {
            true => json!(if same { "as declared" } else { "different" }),
            false => json!(found),
        };
        let mut basis = json!({ "type": "file", "content": content });
        add_ownership_basis(&mut basis, info);
        let diff = match same {
            true if ownership.is_empty() => return Ok(Assessment::ok("content, owner and mode match", basis)),
            true => FileDiff::Ownership(ownership),
            false => FileDiff::Write { other: None, content: self.content_diff(Some(info)), ownership },
        };
        Ok(Assessment::differs(describe_differences(&diff.render_changes()), diff, DisruptionClass::D0, basis))
    }

    /// Checks that nothing exists at the path.
    pub fn assess_absent(&self, seen: &Observation) -> Assessment<FileDiff> {
        let info = match path_state(seen, &path_probe(&self.path)) {
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
        let label = match info.kind {
            PathType::File => format!("file, {}", describe_bytes(info.size, None, false)),
            _ => describe_type(info),
        };
        let mut basis = type_basis(info);
        if let (PathType::File, false) = (info.kind, self.body.secret) {
            basis["content"] = json!(info.sha256);
        }
        let diff = FileDiff::Remove { before: FormerPath { kind: info.kind, label } };
        Assessment::differs(format!("`{}` exists", self.path), diff, DisruptionClass::D0, basis)
    }
}

/// How an observed path differs from a declared file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) enum FileDiff {
    /// The file is missing, has other content, or `other` (a link, a special file) stands in its place.
    Write { other: Option<FormerPath>, content: ContentDiff, ownership: OwnershipDiff },
    /// The content matches, so that it can stay.
    Ownership(OwnershipDiff),
    /// Something stands where nothing is declared.
    Remove { before: FormerPath },
}

/// What a change replaces or removes: its type, and its description for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource) struct FormerPath {
    kind: PathType,
    pub label: String,
}

impl FileDiff {
    /// Returns the type of what a change replaces or removes; `None` for a file that is written again, or for nothing.
    fn former_type(&self) -> Option<PathType> {
        match self {
            Self::Write { other, .. } => other.as_ref().map(|other| other.kind),
            Self::Remove { before } => Some(before.kind),
            Self::Ownership(_) => None,
        }
    }

    /// Reports whether no regular file exists at the path yet.
    pub fn is_creation(&self) -> bool {
        match self {
            Self::Write { ownership, .. } => ownership.is_creation(),
            Self::Ownership(_) | Self::Remove { .. } => false,
        }
    }

    /// Renders the differences of a file that is described by its digest only, because its text is not readable. The
    /// owner and mode that a new file gets are left out.
    pub fn render_digest_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Write { other, content, ownership } => {
                let content = ContentDiff { lines: None, ..content.clone() };
                let ownership = if ownership.is_creation() { OwnershipDiff::default() } else { ownership.clone() };
                Self::Write { other: other.clone(), content, ownership }.render_changes()
            }
            Self::Ownership(_) | Self::Remove { .. } => self.render_changes(),
        }
    }
}

impl ResourceDiff for FileDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Write { other, content, ownership } => {
                let other = other.as_ref().map(|other| AttributeChange::new("type", Some(&other.label), Some("file")));
                other.into_iter().chain([content.render_change()]).chain(ownership.render_changes()).collect()
            }
            Self::Ownership(ownership) => ownership.render_changes(),
            Self::Remove { before } => {
                vec![AttributeChange::new("file", Some(&before.label), None)]
            }
        }
    }
}

/// Content that differs: both sides in words, and the lines that differ where they are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::resource) struct ContentDiff {
    from: Option<String>,
    to: Option<String>,
    lines: Option<UntrustedText>,
    secret: bool,
}

impl ContentDiff {
    pub fn render_change(&self) -> AttributeChange {
        AttributeChange {
            diff: self.lines.clone(),
            secret: self.secret,
            ..AttributeChange::new("content", self.from.as_deref(), self.to.as_deref())
                .with_aspect(ChangeAspect::Content)
        }
    }
}

/// Owner, group and permission bits that differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::resource) struct OwnershipDiff {
    pub owner: Option<ValueChange<String>>,
    pub group: Option<ValueChange<String>>,
    pub mode: Option<ValueChange<String>>,
}

impl OwnershipDiff {
    pub fn compare(info: &PathInfo, owner: &str, group: &str, mode: u32) -> Self {
        let text = |from: &str, to: &str| (from != to).then(|| ValueChange::new(from.to_owned(), to.to_owned()));
        Self {
            owner: text(info.owner.raw(), owner),
            group: text(info.group.raw(), group),
            mode: text(&format_mode(info.mode), &format_mode(mode)),
        }
    }

    /// Returns the ownership of a file that does not exist yet.
    pub fn of_new_file(owner: &str, group: &str, mode: u32) -> Self {
        Self {
            owner: Some(ValueChange::create(owner.to_owned())),
            group: Some(ValueChange::create(group.to_owned())),
            mode: Some(ValueChange::create(format_mode(mode))),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reports whether the file does not exist yet.
    pub fn is_creation(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.from.is_none())
    }

    pub fn render_changes(&self) -> Vec<AttributeChange> {
        let all = [
            ("owner", ChangeAspect::Owner, &self.owner),
            ("group", ChangeAspect::Permissions, &self.group),
            ("mode", ChangeAspect::Permissions, &self.mode),
        ];
        let render = |(name, aspect, change): (&str, _, &Option<ValueChange<String>>)| {
            Some(change.as_ref()?.render_change(name).with_aspect(aspect))
        };
        all.into_iter().filter_map(render).collect()
    }
}

pub(in crate::resource) fn add_ownership_basis(basis: &mut Value, info: &PathInfo) {
    basis["owner"] = json!(info.owner);
    basis["group"] = json!(info.group);
    basis["mode"] = json!(format_mode(info.mode));
}

/// Returns `content and mode differ`, `owner differs`, `groups differ`.
pub(in crate::resource) fn describe_differences(changes: &[AttributeChange]) -> String {
    let names: Vec<&str> = changes.iter().map(|c| c.attribute.as_str()).collect();
    let one = names.len() == 1 && !names[0].ends_with('s');
    format!("{} {}", join_words(&names), if one { "differs" } else { "differ" })
}

/// Returns the path at which the kernel looks for the target of the link at `path`. It is not normalized: `..` depends on
/// other links.
pub(in crate::resource) fn resolve_link_target(path: &str, target: &str) -> String {
    match (target.starts_with('/'), parent_path(path)) {
        (true, _) | (_, None) => target.to_owned(),
        (false, Some("/")) => format!("/{target}"),
        (false, Some(folder)) => format!("{folder}/{target}"),
    }
}

/// Returns how a change of a path is undone that had something of the type `former`. The journal of a host copies files
/// and links only.
pub(in crate::resource) fn restore_path(path: &str, former: Option<PathType>) -> UndoEffect {
    match former {
        Some(PathType::Other) => UndoEffect::irreversible(&describe_lost_special_file(path)),
        _ => UndoEffect::restore_paths([path]),
    }
}

/// Returns why the removal of a special file cannot be undone.
pub(in crate::resource) fn describe_lost_special_file(path: &str) -> String {
    format!("`{path}` is a special file, which is not kept")
}

/// Returns the file type in words.
pub(in crate::resource) fn describe_type(info: &PathInfo) -> String {
    match (info.kind, &info.target) {
        (PathType::File, _) => "file".to_owned(),
        (PathType::Directory, _) => "directory".to_owned(),
        (PathType::Symlink, Some(target)) => format!("symbolic link to `{}`", target.raw()),
        (PathType::Symlink, None) => "symbolic link".to_owned(),
        (PathType::Other, _) => "special file".to_owned(),
    }
}

pub(in crate::resource) fn type_basis(info: &PathInfo) -> Value {
    match &info.target {
        Some(target) => json!({ "type": info.kind, "target": target }),
        None => json!({ "type": info.kind }),
    }
}

/// State of the parent directory of a missing path.
pub(in crate::resource) enum ParentState {
    There,
    /// An earlier step creates it.
    Comes,
    Blocks(ParentBlock),
}

/// Why nothing can be created below a parent directory.
pub(in crate::resource) struct ParentBlock {
    reason: String,
    basis: Value,
    hint: String,
}

impl ParentBlock {
    /// Returns the judgement of a step that needs the directory.
    pub fn block<D>(self) -> Assessment<D> {
        Assessment::blocked(BlockClass::Host, self.reason, self.basis).hint(self.hint)
    }
}

/// Reports whether the parent directory of `path` exists or will be created by an earlier step.
pub(in crate::resource) fn check_parent(
    path: &str,
    seen: &Observation,
    predicted: Option<&EarlierStepEffects>,
) -> Result<ParentState, UnansweredReason> {
    let Some(parent) = parent_path(path) else { return Ok(ParentState::There) };
    match path_state(seen, &path_probe(parent))? {
        // The target of a link is not checked here: the action fails with a clear message if it is not a directory.
        PathState::Present(info) if matches!(info.kind, PathType::Directory | PathType::Symlink) => {
            Ok(ParentState::There)
        }
        PathState::Present(info) => Ok(ParentState::Blocks(ParentBlock {
            reason: format!("`{parent}` is a {}, not a directory", describe_type(info)),
            basis: json!({ "type": "absent", "parent": info.kind }),
            hint: format!("remove `{parent}` with a `file` step before this one, or choose another path"),
        })),
        PathState::Absent if will_be_provided(predicted, &ProvidedItem::Path(parent.to_owned())) => {
            Ok(ParentState::Comes)
        }
        PathState::Absent => Ok(ParentState::Blocks(ParentBlock {
            reason: format!("directory `{parent}` does not exist and no earlier step creates it"),
            basis: json!({ "type": "absent", "parent": "absent" }),
            hint: format!(
                "add a `directory` step for `{parent}` before this one, or set `provides` in the step that creates it"
            ),
        })),
    }
}
