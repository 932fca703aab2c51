//! Evaluates an account's `authorized_keys`.

use super::key::{AuthorizedKeyEntry, PublicKey, parse_entry};
use super::{CHANGE_OWNER_HINT, SshAuthorizedKeyResource};
use crate::model::{BlockClass, DisruptionClass, UntrustedText};
use crate::probe::{
    AuthorizedKeysInfo, AuthorizedKeysState, BODY_CAP, Observation, PathInfo, PathState, PathType, ProbeReading,
    UnansweredReason,
};
use crate::resource::assessment::FileEdit;
use crate::resource::shared::file_target::{describe_type, type_basis};
use crate::resource::shared::support::{
    format_mode, join_quoted, join_words, keys_state, sha256_hex, will_be_provided,
};
use crate::resource::shared::text_lines::TextLines;
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem};
use serde_json::json;

/// Write permission of group and others: sshd ignores keys that another user could have written.
const FOREIGN_WRITE: u32 = 0o022;

/// Result of merging the declared keys into the lines of the file.
struct AuthorizedKeysEdit {
    lines: TextLines,
    changes: Vec<AttributeChange>,
    basis: Vec<String>,
}

impl SshAuthorizedKeyResource {
    pub(super) fn try_assess(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment, UnansweredReason> {
        match keys_state(seen, &self.probe())? {
            AuthorizedKeysState::NoAccount if self.absent => {
                let reason = format!("account `{}` does not exist", self.user);
                Ok(Assessment::ok(reason, json!({ "account": "absent" })))
            }
            AuthorizedKeysState::NoAccount => Ok(self.assess_missing_account(cx)),
            AuthorizedKeysState::Account(info) => self.assess_account(info, cx),
        }
    }

    fn assess_predicted(&self, reason: String, basis: crate::model::Value) -> Assessment {
        let changes =
            self.keys.iter().map(|key| AttributeChange::new("key", None, Some(&self.describe_key(key)))).collect();
        Assessment::change(reason, changes, DisruptionClass::D0, basis).mark_predicted()
    }

    fn assess_missing_account(&self, cx: &AssessmentContext<'_>) -> Assessment {
        let (basis, user) = (json!({ "account": "absent" }), &self.user);
        if will_be_provided(cx.predicted, &ProvidedItem::User(user.clone())) {
            return self.assess_predicted(format!("account `{user}` does not exist yet"), basis);
        }
        Assessment::blocked(BlockClass::Host, format!("account `{user}` does not exist"), basis)
            .hint("add a `user` step before this one")
    }

    fn assess_account(
        &self,
        info: &AuthorizedKeysInfo,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment, UnansweredReason> {
        let home_comes = || {
            let things = [ProvidedItem::User(self.user.clone()), ProvidedItem::Path(info.home.clone())];
            things.iter().any(|thing| will_be_provided(cx.predicted, thing))
        };
        match &info.home_at {
            PathState::Absent if self.absent => Ok(Assessment::ok(
                format!("home directory `{}` does not exist", info.home),
                json!({ "home": "absent" }),
            )),
            PathState::Absent if home_comes() => {
                let reason = format!("home directory `{}` does not exist yet", info.home);
                Ok(self.assess_predicted(reason, json!({ "home": "absent" })))
            }
            PathState::Absent => {
                Ok(block_on_host(format!("home directory `{}` does not exist", info.home), json!({ "home": "absent" }))
                    .hint("add a `directory` step for it before this one"))
            }
            PathState::Present(home) => match self.block_ignored_keys(info, home) {
                Some(judgement) => Ok(judgement),
                None => self.assess_key_file(info, home),
            },
        }
    }

    /// Returns why sshd would ignore keys in this home directory, or why forge must not write there.
    fn block_ignored_keys(&self, info: &AuthorizedKeysInfo, home: &PathInfo) -> Option<Assessment> {
        let folder = format!("{}/.ssh", info.home);
        let file = format!("{folder}/authorized_keys");
        if home.kind == PathType::Directory && home.mode & FOREIGN_WRITE != 0 {
            let reason = format!(
                "home directory `{}` is writable by other users (mode {}), so sshd ignores its keys",
                info.home,
                format_mode(home.mode)
            );
            let basis = json!({ "home": format_mode(home.mode) });
            return Some(
                block_on_host(reason, basis).hint("restrict it with a `directory` step: mode \"0755\" or stricter"),
            );
        }
        if home.kind == PathType::Directory && ![self.user.as_str(), "root"].contains(&home.owner.raw()) {
            let reason =
                format!("home directory `{}` belongs to `{}`, so sshd ignores its keys", info.home, home.owner.raw());
            return Some(
                block_on_host(reason, json!({ "home": home.owner })).hint("set its owner with a `directory` step"),
            );
        }
        let wrong = |path: &str, state: &PathState, wanted: PathType| match state {
            PathState::Present(info) if info.kind != wanted => {
                let reason = format!("`{path}` is a {}", describe_type(info));
                let hint = "remove it: forge writes keys only to a file in the home directory itself";
                Some(block_on_host(reason, type_basis(info)).hint(hint))
            }
            _ => None,
        };
        wrong(&folder, &info.folder, PathType::Directory).or_else(|| wrong(&file, &info.file, PathType::File))
    }

    /// Returns why forge does not change the owner of directory or file: it belongs to another user, and users other
    /// than root may have moved it there.
    fn block_foreign_owner(&self, info: &AuthorizedKeysInfo, home: &PathInfo) -> Option<Assessment> {
        let folder = format!("{}/.ssh", info.home);
        let file = format!("{folder}/authorized_keys");
        let is_open = |above: &PathInfo| above.owner.raw() != "root" || above.mode & FOREIGN_WRITE != 0;
        let in_home = is_open(home);
        let in_folder = in_home || matches!(&info.folder, PathState::Present(folder) if is_open(folder));
        let given = |path: &str, state: &PathState, is_open: bool| match state {
            PathState::Present(at) if is_open && at.owner.raw() != self.user => {
                let owner = at.owner.raw();
                let reason = format!(
                    "`{path}` belongs to {owner}, and others may have put it there: forge does not give it away"
                );
                Some(block_on_host(reason, json!({ "path": path, "owner": owner })).hint(CHANGE_OWNER_HINT))
            }
            _ => None,
        };
        given(&folder, &info.folder, in_home).or_else(|| given(&file, &info.file, in_folder))
    }

    fn assess_key_file(&self, info: &AuthorizedKeysInfo, home: &PathInfo) -> Result<Assessment, UnansweredReason> {
        let path = format!("{}/.ssh/authorized_keys", info.home);
        // forge does not read a file of another user that the account may have moved there.
        let is_unread = matches!(&info.file, PathState::Present(file) if file.body.is_none());
        if let Some(judgement) = self.block_foreign_owner(info, home).filter(|_| is_unread) {
            return Ok(judgement);
        }
        let (body, file) = match &info.file {
            PathState::Absent => ("", None),
            PathState::Present(file) => match (&file.body, &file.sha256) {
                (Some(body), _) => (body.raw(), Some(file)),
                (None, None) => return Err(UnansweredReason::new(format!("`{path}` could not be read"))),
                (None, Some(_)) => {
                    let reason = format!("`{path}` is not UTF-8 text of at most {BODY_CAP} bytes");
                    return Ok(block_on_host(reason, json!({ "unfit": true })));
                }
            },
        };
        let mut sorted = self.edit_keys(TextLines::parse(body));
        if !self.absent {
            sorted.changes.extend(self.loose_permission_changes("folder", &info.folder));
            sorted.changes.extend(self.loose_permission_changes("file", &info.file));
        }
        let basis = json!({ "keys": sorted.basis, "access": self.access_basis(info) });
        if sorted.changes.is_empty() {
            return Ok(Assessment::ok(self.describe_unchanged(), basis));
        }
        if let Some(judgement) = self.block_foreign_owner(info, home) {
            return Ok(judgement);
        }
        let text = sorted.lines.to_text();
        if let Some(first) = sorted.changes.first_mut().filter(|change| change.attribute == "key") {
            first.diff =
                crate::resource::shared::diff::unified_diff(body.as_bytes(), text.as_bytes()).map(UntrustedText::from);
            // The diff of the first change shows all keys.
            let mut keys = 0;
            sorted.changes.retain(|change| {
                change.attribute != "key" || {
                    keys += 1;
                    keys == 1
                }
            });
        }
        let reason = describe_changes(&sorted.changes, &path);
        let edit = self.build_edit(info, file, text);
        Ok(Assessment::change(reason, sorted.changes, DisruptionClass::D0, basis).edit(edit))
    }

    /// Adds each declared key to the lines, or removes it.
    fn edit_keys(&self, lines: TextLines) -> AuthorizedKeysEdit {
        let mut sorted = AuthorizedKeysEdit { lines, changes: Vec::new(), basis: Vec::new() };
        for key in &self.keys {
            let own = sorted.lines.find_indices(|line| parse_entry(line).is_some_and(|e| is_same_key(&e, key)));
            sorted.basis.extend(own.iter().map(|at| sorted.lines.get(*at).to_owned()));
            match self.absent {
                true => sorted.remove_lines(&own),
                false => sorted.put_key(&own, key, &self.options),
            }
        }
        if self.exclusive && !self.absent {
            let declared = |e: &AuthorizedKeyEntry<'_>| self.keys.iter().any(|key| is_same_key(e, key));
            let others = sorted.lines.find_indices(|line| parse_entry(line).is_some_and(|e| !declared(&e)));
            sorted.basis.extend(others.iter().map(|at| sorted.lines.get(*at).to_owned()));
            sorted.remove_lines(&others);
        }
        sorted
    }

    /// Changes owner and mode only if sshd would ignore the keys because of them.
    fn loose_permission_changes(&self, what: &str, state: &PathState) -> Vec<AttributeChange> {
        let PathState::Present(info) = state else { return Vec::new() };
        let mut changes = Vec::new();
        if info.owner.raw() != self.user {
            changes.push(AttributeChange::new(
                &format!("owner of the {what}"),
                Some(info.owner.raw()),
                Some(&self.user),
            ));
        }
        if info.mode & FOREIGN_WRITE != 0 {
            changes.push(AttributeChange::new(
                &format!("mode of the {what}"),
                Some(&format_mode(info.mode)),
                Some(&format_mode(info.mode & !FOREIGN_WRITE)),
            ));
        }
        changes
    }

    fn access_basis(&self, info: &AuthorizedKeysInfo) -> Vec<Vec<AttributeChange>> {
        vec![self.loose_permission_changes("folder", &info.folder), self.loose_permission_changes("file", &info.file)]
    }

    fn describe_unchanged(&self) -> String {
        let count = self.keys.len();
        match (self.absent, self.exclusive, count) {
            (true, _, 1) => "the key does not exist".to_owned(),
            (true, ..) => "none of the keys exists".to_owned(),
            (false, true, 1) => "the key exists, and no other".to_owned(),
            (false, true, _) => format!("all {count} keys exist, and no other"),
            (false, false, 1) => "the key exists and its options match".to_owned(),
            (false, false, _) => format!("all {count} keys exist and their options match"),
        }
    }

    fn build_edit(&self, info: &AuthorizedKeysInfo, file: Option<&PathInfo>, text: String) -> FileEdit {
        let given = |at: Option<&PathInfo>, kind, mode| {
            let at = at.cloned().unwrap_or(PathInfo { kind, mode, ..PathInfo::root_file() });
            PathInfo { owner: self.user.as_str().into(), mode: at.mode & !FOREIGN_WRITE, ..at }
        };
        let folder = match &info.folder {
            PathState::Present(folder) => Some(folder),
            PathState::Absent => None,
        };
        let file_then = PathInfo {
            size: text.len() as u64,
            sha256: Some(sha256_hex(text.as_bytes())),
            body: Some(text.as_str().into()),
            ..given(file, PathType::File, 0o600)
        };
        let then = AuthorizedKeysInfo {
            folder: PathState::Present(given(folder, PathType::Directory, 0o700)),
            file: PathState::Present(file_then),
            ..info.clone()
        };
        FileEdit {
            old: file.and_then(|file| file.sha256.clone()),
            body: text,
            probe: self.probe(),
            becomes: ProbeReading::AuthorizedKeys(AuthorizedKeysState::Account(Box::new(then))),
        }
    }

    pub(super) fn describe_key(&self, key: &PublicKey) -> String {
        format!(
            "{} {}{}",
            key.kind,
            key.fingerprint(),
            if key.comment.is_empty() { String::new() } else { format!(" {}", key.comment) }
        )
    }
}

impl AuthorizedKeysEdit {
    fn put_key(&mut self, own: &[usize], key: &PublicKey, options: &str) {
        let Some((first, others)) = own.split_first() else {
            let end = self.lines.find_indices(|_| true).len();
            let line = key.to_line(options);
            self.lines.insert(end, [line.as_str()]);
            self.changes.push(AttributeChange::new("key", None, Some(&line)));
            return;
        };
        let found = self.lines.get(*first).to_owned();
        let differs = parse_entry(&found).is_some_and(|e| e.options != options);
        // If one key has several sets of options, sshd uses the first that fits, so all must match.
        let stray = others.iter().any(|at| parse_entry(self.lines.get(*at)).is_some_and(|e| e.options != options));
        if stray {
            self.remove_lines(others);
        }
        if differs {
            let line = key.to_line(options);
            self.lines.replace(*first, &line);
            self.changes.push(AttributeChange::new("key", Some(&found), Some(&line)));
        }
    }

    fn remove_lines(&mut self, own: &[usize]) {
        for at in own.iter().rev() {
            self.changes.push(AttributeChange::new("key", Some(self.lines.get(*at)), None));
            self.lines.remove(*at);
        }
    }
}

fn is_same_key(entry: &AuthorizedKeyEntry<'_>, key: &PublicKey) -> bool {
    entry.kind == key.kind && entry.blob == key.blob
}

fn block_on_host(reason: String, basis: crate::model::Value) -> Assessment {
    Assessment::blocked(BlockClass::Host, reason, basis)
}

fn describe_changes(changes: &[AttributeChange], path: &str) -> String {
    let names: Vec<&str> = changes.iter().map(|change| change.attribute.as_str()).collect();
    match names.as_slice() {
        ["key"] => format!("keys in {} differ", join_quoted(&[path])),
        names => format!("{} differ in {}", join_words(names), join_quoted(&[path])),
    }
}
