//! `artifact`: a large file with a known digest, sent by the controller or fetched by the host.

mod assessment;
pub(in crate::resource) mod content;
mod declaration;
mod diff;
mod script;

use crate::diag::{Diag, DiagCode};
use crate::model::{
    Artifact as Source, ArtifactCredentials, ArtifactSource as From, HttpUrl, SecretStore, Sha256Digest, UndoEffect,
    Value,
};
use crate::probe::{Observation, Probe};
use crate::resource::shared::accounts::{AccountName, account_probes, require_accounts};
use crate::resource::shared::file_target;
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::support::{
    GROUP_FIELD, OWNER_FIELD, bad_value, format_mode, parse_owner_and_group, require_file_path,
};
use crate::resource::shared::system_directories::check_writable;
use crate::resource::traits::{KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, ArtifactDelivery, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use declaration::ArtifactResource;
use diff::ArtifactDiff;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "artifact",
    summary: "A large file with a known SHA-256, sent by the controller or fetched by the host.",
    example: include_str!("../../examples/artifact.yaml"),
    doc: "\
Use it for installers, drivers and archives that are too large for a `file` step. The artifact comes from `url` (http or
https) or `file` (a file of any size in the inventory's tree). **`sha256` is required**, either in the step or in the
lock file next to the inventory, which `forge fetch --lock` writes. Without a digest nothing is contacted.

**`via: controller`** (default): forge downloads the artifact once into its cache, regardless of the number of hosts,
and sends it over the open session. Interrupted downloads and transfers resume where they stopped, in this run or the
next. `forge fetch` fills the cache in advance; with `--offline` a missing artifact is an error. **`via: host`**: the
host downloads it with its own `curl`, as a long step that survives a lost session; with `--offline` the controller
sends it from its cache instead.

**Compares** type, SHA-256, owner, group and mode. To keep plans fast, forge reads the whole file only if its size,
inode or one of its times changed since forge installed it (recorded in `/var/lib/forge/artifacts`). In a directory that
other users can write to, the file is always read. An unchanged step reports `content, owner and mode match`.

**A change** writes to a directory next to the target that only root can enter, verifies the SHA-256 **on the host**,
sets owner and mode, and renames the file over the target: content with another digest is never installed. Redirects
from https to http are rejected, and credentials are sent only to the origin of `url`. Credentials are secrets and
appear neither in command lines nor in logs. The old file is not backed up, because it can be downloaded again.

**The parent directory** must exist or be created by an earlier step. If an artifact is unavailable, forge exits with
code 69; if this is known in advance, no host is changed.

**Removal** removes the file.",
    fields: FIELDS,
    build,
    traits: KindTraits {
        downloads: true,
        has_locked_digest: true,
        exposure: PackageExposure::Unknown,
        ..KindTraits::DEFAULT
    },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("path", FieldType::Path, "Path of the file on the host."),
    FieldSpec::optional("url", FieldType::Line, "Download URL, `https://…` or `http://…`. Excludes `file`.")
        .passing_secrets(),
    FieldSpec::optional("file", FieldType::LocalPath, "File of any size in the inventory's tree. Excludes `url`."),
    FieldSpec::optional(
        "sha256",
        FieldType::Line,
        "SHA-256 of the file, 64 hex digits. Default: the entry in the lock file next to the inventory.",
    ),
    FieldSpec::optional(
        "via",
        FieldType::Enum(&["controller", "host"]),
        "Who downloads `url`: `controller` downloads and sends it, `host` downloads it itself. Default `controller`.",
    ),
    FieldSpec::optional("user", FieldType::Line, "User name for the server. Requires `password`."),
    FieldSpec::optional("password", FieldType::Secret, "The password of `user`."),
    FieldSpec::optional("token", FieldType::Secret, "A bearer token for the server. Excludes `user` and `password`."),
    OWNER_FIELD,
    GROUP_FIELD,
    FieldSpec::optional("mode", FieldType::Mode, "Permission bits. Default `\"0644\"`."),
];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = require_file_path(fields)?;
    if !absent {
        check_writable(&path)?;
    }
    let (owner, group) = parse_owner_and_group(fields)?;
    Ok(Box::new(ArtifactResource {
        path,
        source: (!absent).then(|| parse_source(fields)).transpose()?,
        owner,
        group,
        mode: fields.get_mode("mode").unwrap_or(0o644),
    }))
}

fn parse_source(fields: &FieldValues) -> Result<Source, Diag> {
    let login = parse_login(fields)?;
    let from = match (fields.get_text("url"), fields.get_text("file")) {
        (Some(_), Some(_)) => {
            return Err(Diag::error(DiagCode::Exclusive, "`url` and `file` exclude each other").with_field("file"));
        }
        (None, None) => return Err(Diag::error(DiagCode::MissingKey, "an artifact needs `url` or `file`")),
        (Some(url), None) => From::Url { address: parse_address(url)?, login },
        (None, Some(_)) if login != ArtifactCredentials::None => {
            return Err(Diag::error(DiagCode::Exclusive, "`file` does not take `user`, `password` or `token`")
                .hint("remove `user`, `password` and `token`"));
        }
        (None, Some(file)) => From::File(file.into()),
    };
    let by_host = fields.get_text("via") == Some("host");
    if by_host && matches!(from, From::File(_)) {
        return Err(Diag::error(DiagCode::Exclusive, "`file` is on the controller, the host cannot fetch it")
            .hint("remove `via`"));
    }
    Ok(Source { source: from, sha256: parse_digest(fields)?, by_host })
}

fn parse_address(url: &str) -> Result<HttpUrl, Diag> {
    if SecretStore::has_placeholder(url) {
        return Err(bad_value("`url` must not contain a secret, because URLs are printed")
            .with_field("url")
            .hint("use `token`, or `user` and `password`"));
    }
    HttpUrl::parse(url).map_err(|why| {
        bad_value(format!("`url` {why}")).with_field("url").hint("write it as `https://mirror.example/x.run`")
    })
}

fn parse_login(fields: &FieldValues) -> Result<ArtifactCredentials, Diag> {
    match (fields.get_text("user"), fields.get_text("password"), fields.get_text("token")) {
        (None, None, None) => Ok(ArtifactCredentials::None),
        (Some(user), Some(_), None) if user.contains(':') => {
            Err(bad_value("`user` must not contain `:`").with_field("user"))
        }
        (Some(user), Some(password), None) => {
            Ok(ArtifactCredentials::Basic { user: user.to_owned(), password: password.to_owned() })
        }
        (None, None, Some(token)) => Ok(ArtifactCredentials::Bearer { token: token.to_owned() }),
        (_, _, Some(_)) => Err(Diag::error(DiagCode::Exclusive, "`token` excludes `user` and `password`")),
        (_, _, None) => Err(Diag::error(DiagCode::MissingKey, "`user` and `password` must be set together")),
    }
}

/// Hint for a missing digest.
const MISSING_DIGEST_HINT: &str = "copy it from the publisher, run `forge fetch` to compute and print it, \
                         or run `forge fetch --lock` to write it to the inventory's lock file";

fn parse_digest(fields: &FieldValues) -> Result<Sha256Digest, Diag> {
    let Some(text) = fields.get_text("sha256") else {
        let source = if fields.contains("url") { "url" } else { "file" };
        return Err(Diag::error(DiagCode::MissingKey, "an artifact needs its `sha256`")
            .with_field(source)
            .hint(MISSING_DIGEST_HINT));
    };
    Sha256Digest::parse(text).ok_or_else(|| bad_value("`sha256` is not 64 hexadecimal digits").with_field("sha256"))
}

impl DeclaredResource for ArtifactResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.path.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Path(self.path.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![content::content_probe(&self.path, true), file_target::resolved_parent_probe(&self.path)];
        if self.source.is_some() {
            probes.extend(crate::resource::shared::support::parent_path(&self.path).map(path_probe));
            probes.extend(account_probes(&AccountName::list_owners(&self.owner, &self.group)));
        }
        probes
    }

    fn explain_exit_status(&self, status: i32) -> Option<&str> {
        (status == script::UNAVAILABLE_STATUS).then_some("the artifact is unavailable or does not match its `sha256`")
    }

    fn artifact(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    fn desired_value(&self) -> Value {
        match &self.source {
            None => json!({ "path": self.path, "absent": true }),
            Some(source) => json!({
                "path": self.path, "sha256": source.sha256.as_str(),
                "owner": self.owner, "group": self.group, "mode": format_mode(self.mode),
            }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        self.source.as_ref().map(|_| ProvidedItem::Path(self.path.clone())).into_iter().collect()
    }

    fn is_read_at_start(&self) -> bool {
        self.source.is_some() && self.mode & 0o111 != 0
    }

    /// The note is rewritten whenever the file is, and is cheap to read.
    fn restart_input_paths(&self) -> Vec<String> {
        vec![content::note_path(&self.path)]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.path.clone())]
    }
}

impl TypedResource for ArtifactResource {
    type Diff = ArtifactDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ArtifactDiff> {
        let judged = file_target::check_parent_trusted(seen, &self.path).and_then(|()| match &self.source {
            Some(source) => self.assess_present(source, seen, cx).map(|judgement| {
                require_accounts(judgement, &AccountName::list_owners(&self.owner, &self.group), seen, cx)
            }),
            None => self.assess_absent(seen),
        });
        judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &ArtifactDiff, cx: &AssessmentContext<'_>) -> Action {
        let (body, long) = match (&self.source, diff) {
            (None, _) | (_, ArtifactDiff::Remove { .. }) => (self.render_removal(cx.run), false),
            (Some(source), ArtifactDiff::Ownership(_)) => (self.render_ownership_change(source, cx.run), false),
            (Some(source), ArtifactDiff::Write { .. }) if source.by_host => (self.render_fetch(source), true),
            (Some(source), ArtifactDiff::Write { .. }) => (self.render_receive(source), false),
        };
        Action::Script(ActionScript { body, long, explain: script::EXPLAIN })
    }

    fn deliver(&self, diff: &ArtifactDiff) -> Option<ArtifactDelivery> {
        let source = self.source.as_ref().filter(|_| matches!(diff, ArtifactDiff::Write { .. }))?;
        Some(ArtifactDelivery {
            artifact: source.clone(),
            part: self.render_progress_query(source),
            body: self.render_receive(source),
        })
    }

    fn undo(&self, diff: &ArtifactDiff) -> UndoEffect {
        match diff {
            ArtifactDiff::Write { content, other: None, .. } if content.from.is_none() => {
                UndoEffect::restore_paths([&self.path])
            }
            _ => UndoEffect::irreversible(&format!("the content of `{}` before the change is not kept", self.path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn build_error(entries: &[(&'static str, &str)]) -> String {
        let fields = [("path", "/opt/x.run")].iter().chain(entries).map(|(key, value)| (*key, json!(value)));
        build(&FieldValues(fields.collect()), false).unwrap_err().message
    }

    #[test]
    fn artifact_in_place_of_a_device_is_rejected() {
        let fields = [("path", json!("/dev/null")), ("file", json!("/srv/x.run")), ("sha256", json!(DIGEST))];
        let error = build(&FieldValues(fields.into_iter().collect()), false).unwrap_err();
        assert_eq!(error.message, "`/dev/null` is below /dev, where the kernel and udev make the entries");
    }

    #[test]
    fn exactly_one_source_and_sha256_are_required() {
        let url = ("url", "https://mirror.example/x.run");
        assert_eq!(build_error(&[]), "an artifact needs `url` or `file`");
        assert_eq!(build_error(&[url, ("file", "/srv/x.run")]), "`url` and `file` exclude each other");
        assert_eq!(build_error(&[url]), "an artifact needs its `sha256`");
        assert_eq!(build_error(&[url, ("sha256", "abc")]), "`sha256` is not 64 hexadecimal digits");
        let file = ("file", "/srv/x.run");
        assert_eq!(
            build_error(&[file, ("sha256", DIGEST), ("via", "host")]),
            "`file` is on the controller, the host cannot fetch it"
        );
        assert_eq!(build_error(&[("url", "ftp://h/x"), ("sha256", DIGEST)]), "`url` is neither http nor https");
    }

    #[test]
    fn partial_credentials_and_secrets_in_urls_are_rejected() {
        let url = ("url", "https://mirror.example/x.run");
        assert_eq!(build_error(&[url, ("user", "me")]), "`user` and `password` must be set together");
        assert_eq!(build_error(&[url, ("token", "t"), ("user", "me")]), "`token` excludes `user` and `password`");
        assert_eq!(
            build_error(&[("url", "https://me:secret@h/x"), ("sha256", DIGEST)]),
            "`url` holds credentials, which would be shown"
        );
        let mut secrets = SecretStore::default();
        let token = secrets.insert("TOKEN", "x".to_owned().into()).0;
        assert_eq!(
            build_error(&[("url", &format!("https://h/x?t={token}"))]),
            "`url` must not contain a secret, because URLs are printed"
        );
        assert_eq!(
            build_error(&[("file", "/srv/x"), ("token", &token)]),
            "`file` does not take `user`, `password` or `token`"
        );
    }
}
