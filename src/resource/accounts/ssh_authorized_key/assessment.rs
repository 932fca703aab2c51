//! Evaluates an account's `authorized_keys`.

use super::difference::{
    AccessDiff, AuthorizedKeysDiff, FOREIGN_WRITE, OWN_FILE, OWN_FOLDER, SecondFileDiff, complete_mode,
};
use super::key::{AuthorizedKeyEntry, PublicKey, parse_entry};
use super::{CHANGE_OWNER_HINT, SshAuthorizedKeyResource};
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{
    AuthorizedKeysInfo, AuthorizedKeysState, BODY_CAP, Observation, PathInfo, PathState, PathType, ProbeReading,
    UnansweredReason,
};
use crate::resource::shared::edited_file::FileEdit;
use crate::resource::shared::file_target::{describe_type, type_basis};
use crate::resource::shared::support::{
    format_mode, join_quoted, join_words, keys_state, sha256_hex, will_be_provided,
};
use crate::resource::shared::text_lines::TextLines;
use crate::resource::{Assessment, AssessmentContext, ProvidedItem, ResourceDiff, ValueChange};
use serde_json::json;

type KeysAssessment = Assessment<AuthorizedKeysDiff>;

/// Result of merging the declared keys into the lines of the file.
struct AuthorizedKeysEdit {
    lines: TextLines,
    keys: Vec<ValueChange<String>>,
    basis: Vec<String>,
}

/// Reports whether an earlier step changes the home directory, or the directory above the keys that the account cannot
/// search.
fn changes_directory(info: &AuthorizedKeysInfo, cx: &AssessmentContext<'_>) -> bool {
    let mut concerned = [Some(&info.home), info.unsearchable.as_ref()].into_iter().flatten();
    cx.predicted
        .is_some_and(|earlier| concerned.any(|path| earlier.will_exist.contains(&ProvidedItem::Path(path.clone()))))
}

impl SshAuthorizedKeyResource {
    pub(super) fn try_assess(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<KeysAssessment, UnansweredReason> {
        match keys_state(seen, &self.probe())? {
            AuthorizedKeysState::NoAccount if self.absent => {
                let reason = format!("account `{}` does not exist", self.user);
                Ok(Assessment::ok(reason, json!({ "account": "absent" })))
            }
            AuthorizedKeysState::NoAccount => Ok(self.assess_missing_account(cx)),
            AuthorizedKeysState::Account(info) => self.assess_account(info, cx),
        }
    }

    fn assess_predicted(&self, reason: String, basis: Value) -> KeysAssessment {
        let diff = AuthorizedKeysDiff::Later { keys: self.keys.iter().map(|key| self.describe_key(key)).collect() };
        Assessment::differs(reason, diff, DisruptionClass::D0, basis).mark_predicted()
    }

    fn assess_missing_account(&self, cx: &AssessmentContext<'_>) -> KeysAssessment {
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
    ) -> Result<KeysAssessment, UnansweredReason> {
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
                Some(blocked) if !self.absent && changes_directory(info, cx) => {
                    let reason = format!("{}; an earlier step changes the directory", blocked.reason.raw());
                    Ok(self.assess_predicted(reason, blocked.basis))
                }
                Some(judgement) => Ok(judgement),
                None => self.assess_key_file(info, home),
            },
        }
    }

    /// Returns why sshd would ignore keys in this home directory, or why forge must not write there.
    fn block_ignored_keys(&self, info: &AuthorizedKeysInfo, home: &PathInfo) -> Option<KeysAssessment> {
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
        // A removal does not depend on it.
        if let Some(directory) = info.unsearchable.as_ref().filter(|_| !self.absent) {
            let reason = format!("`{}` cannot search directory `{directory}`, so sshd cannot read its keys", self.user);
            let hint = "permit it with a `directory` step before this one: mode \"0755\", for example";
            return Some(block_on_host(reason, json!({ "unsearchable": directory })).hint(hint));
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
    fn block_foreign_owner(&self, info: &AuthorizedKeysInfo, home: &PathInfo) -> Option<KeysAssessment> {
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

    fn assess_key_file(&self, info: &AuthorizedKeysInfo, home: &PathInfo) -> Result<KeysAssessment, UnansweredReason> {
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
                (None, Some(_)) => return Ok(block_unread_body(info, &path)),
            },
        };
        let AuthorizedKeysEdit { lines, keys, basis } = self.edit_keys(TextLines::parse(body));
        let second = match self.assess_second_file(info) {
            Ok(second) => second,
            Err(judgement) => return Ok(*judgement),
        };
        let access = [(&info.folder, OWN_FOLDER), (&info.file, OWN_FILE)]
            .map(|(at, own)| AccessDiff::compare(at, &self.user, own));
        let access_basis = [access[0].render_changes("folder"), access[1].render_changes("file")];
        let mut basis = json!({ "keys": basis, "access": access_basis });
        if let Some(second) = &second {
            let lines: Vec<_> = second.keys.iter().filter_map(|change| change.from.as_ref()).collect();
            basis["second"] = json!(lines);
        }
        // A removal leaves owner and mode.
        let [folder, file_access] = if self.absent { Default::default() } else { access };
        let changes_first = !keys.is_empty() || !folder.is_empty() || !file_access.is_empty();
        if !changes_first && second.is_none() {
            return Ok(Assessment::ok(self.describe_unchanged(), basis));
        }
        if let Some(judgement) = self.block_foreign_owner(info, home) {
            return Ok(judgement);
        }
        let diff = AuthorizedKeysDiff::Write {
            keys,
            new_folder: info.folder == PathState::Absent,
            folder,
            file: file_access,
            edit: Box::new(self.build_edit(
                info,
                file.map(|file| &**file),
                lines.to_text(),
                (changes_first, second.as_ref()),
            )),
            second: second.map(Box::new),
        };
        Ok(Assessment::differs(describe_differences(&diff, &path), diff, DisruptionClass::D0, basis))
    }

    /// Returns what must go from `authorized_keys2`, which sshd reads too: with `exclusive` other keys, for a removal
    /// the declared ones, and always a declared key with other options, with which it could log in too. Otherwise the
    /// file does not matter, nor does what it is.
    fn assess_second_file(&self, info: &AuthorizedKeysInfo) -> Result<Option<SecondFileDiff>, Box<KeysAssessment>> {
        let PathState::Present(file) = &info.second_file else { return Ok(None) };
        let path = format!("{}/.ssh/authorized_keys2", info.home);
        let body = match (&file.body, file.kind) {
            (Some(body), PathType::File) => body.raw(),
            _ if !self.absent && !self.exclusive => return Ok(None),
            (_, PathType::File) => {
                let reason = format!("sshd reads `{path}` too, and forge could not read it as text");
                return Err(Box::new(block_on_host(reason, json!({ "second": "unread" })).hint(REMOVE_SECOND_HINT)));
            }
            _ => {
                let reason = format!("sshd reads `{path}` too, which is a {}", describe_type(file));
                return Err(Box::new(block_on_host(reason, type_basis(file)).hint(REMOVE_SECOND_HINT)));
            }
        };
        let mut edit = AuthorizedKeysEdit { lines: TextLines::parse(body), keys: Vec::new(), basis: Vec::new() };
        let must_go = |entry: &AuthorizedKeyEntry<'_>| {
            let is_declared = self.keys.iter().any(|key| is_same_key(entry, key));
            if self.absent {
                is_declared
            } else if is_declared {
                entry.options != self.options
            } else {
                self.exclusive
            }
        };
        let lines = edit.lines.find_indices(|line| parse_entry(line).is_some_and(|entry| must_go(&entry)));
        if lines.is_empty() {
            return Ok(None);
        }
        let owner = file.owner.raw();
        if owner != self.user {
            let reason = format!("`{path}` has keys that must go, and belongs to {owner}: forge does not change it");
            let basis = json!({ "path": path, "owner": owner });
            return Err(Box::new(block_on_host(reason, basis).hint(REMOVE_SECOND_HINT)));
        }
        edit.remove_lines(&lines);
        Ok(Some(SecondFileDiff { keys: edit.keys, before: PathInfo::clone(file), body: edit.lines.to_text() }))
    }

    /// Adds each declared key to the lines, or removes it.
    fn edit_keys(&self, lines: TextLines) -> AuthorizedKeysEdit {
        let mut sorted = AuthorizedKeysEdit { lines, keys: Vec::new(), basis: Vec::new() };
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

    fn build_edit(
        &self,
        info: &AuthorizedKeysInfo,
        file: Option<&PathInfo>,
        text: String,
        (changes_first, second): (bool, Option<&SecondFileDiff>),
    ) -> FileEdit {
        let given = |at: Option<&PathInfo>, kind, own| {
            let at = at.cloned().unwrap_or(PathInfo { kind, mode: own, ..PathInfo::root_file() });
            PathInfo { owner: self.user.as_str().into(), mode: complete_mode(at.mode, own), ..at }
        };
        let with_body = |text: &str, at: PathInfo| PathInfo {
            size: text.len() as u64,
            sha256: Some(sha256_hex(text.as_bytes())),
            body: Some(text.into()),
            ..at
        };
        let folder = match &info.folder {
            PathState::Present(folder) => Some(&**folder),
            PathState::Absent => None,
        };
        let second_then = second.map(|second| {
            let at = given(Some(&second.before), PathType::File, OWN_FILE);
            PathState::Present(Box::new(with_body(&second.body, at)))
        });
        let file_then = PathState::Present(Box::new(with_body(&text, given(file, PathType::File, OWN_FILE))));
        let then = AuthorizedKeysInfo {
            folder: PathState::Present(Box::new(given(folder, PathType::Directory, OWN_FOLDER))),
            file: if changes_first { file_then } else { info.file.clone() },
            second_file: second_then.unwrap_or_else(|| info.second_file.clone()),
            ..info.clone()
        };
        FileEdit {
            before: file.cloned(),
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
            self.keys.push(ValueChange::create(line));
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
            self.keys.push(ValueChange::new(found, line));
        }
    }

    fn remove_lines(&mut self, own: &[usize]) {
        for at in own.iter().rev() {
            self.keys.push(ValueChange { from: Some(self.lines.get(*at).to_owned()), to: None });
            self.lines.remove(*at);
        }
    }
}

fn is_same_key(entry: &AuthorizedKeyEntry<'_>, key: &PublicKey) -> bool {
    entry.kind == key.kind && entry.blob == key.blob
}

fn block_on_host(reason: String, basis: Value) -> KeysAssessment {
    Assessment::blocked(BlockClass::Host, reason, basis)
}

/// Hint for an `authorized_keys2` that forge does not change.
const REMOVE_SECOND_HINT: &str = "check its content, then remove it on the host and run forge again";

/// Returns why the body of an existing file was not sent. Of a directory that other users can write to, the host sends
/// no body of a file that only root may read: they may have moved another file of root there.
fn block_unread_body(info: &AuthorizedKeysInfo, path: &str) -> KeysAssessment {
    match &info.folder {
        PathState::Present(folder) if folder.mode & FOREIGN_WRITE != 0 => {
            let (name, mode) = (format!("{}/.ssh", info.home), format_mode(folder.mode));
            let reason =
                format!("`{name}` is writable by other users (mode {mode}), so forge does not read the keys in it");
            let hint = format!("check its content, then run `chmod go-w {name}` on the host and run forge again");
            block_on_host(reason, json!({ "folder": mode })).hint(hint)
        }
        _ => {
            let reason = format!("`{path}` is not UTF-8 text of at most {BODY_CAP} bytes");
            block_on_host(reason, json!({ "unfit": true }))
        }
    }
}

fn describe_differences(diff: &AuthorizedKeysDiff, path: &str) -> String {
    let (first, second) = (path.to_owned(), format!("{path}2"));
    let path = match diff {
        AuthorizedKeysDiff::Write { second: Some(_), .. } if diff.changes_first_file() => join_quoted(&[first, second]),
        AuthorizedKeysDiff::Write { second: Some(_), .. } => join_quoted(&[second]),
        _ => join_quoted(&[first]),
    };
    if diff.changes_only_keys() {
        return format!("keys in {path} differ");
    }
    let changes = diff.render_changes();
    let names: Vec<&str> = changes.iter().map(|change| change.attribute.as_str()).collect();
    format!("{} differ in {path}", join_words(&names))
}
