//! `directory`: a directory with its owner and mode.

use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, GuardEffect, UndoDeclaration, UndoEffect, Value};
use crate::probe::{CheckProbe, Observation, PathInfo, PathState, PathType, Probe, UnansweredReason};
use crate::resource::shared::accounts::{AccountName, account_probes, require_accounts};
use crate::resource::shared::file_target::{
    OwnershipDiff, ParentState, add_ownership_basis, check_parent, describe_differences, describe_type, path_probe,
    resolve_link_target, type_basis,
};
use crate::resource::shared::mounted_paths::{mounts_probe, refuse_mounted_paths};
use crate::resource::shared::shell;
use crate::resource::shared::support::{
    GROUP_FIELD, OWNER_FIELD, bad_value, format_mode, output, parse_owner_and_group, path_state, required_text,
};
use crate::resource::shared::system_directories::check_removable;
use crate::resource::traits::{EffectReach, GuardSupport, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionBatch, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject,
    DeclaredResource, FieldSpec, FieldType, FieldValues, NewPath, ProvidedItem, Resource, ResourceDiff, ResourceKind,
    TypedResource, ValueChange,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "directory",
    summary: "A directory with its owner and mode.",
    example: include_str!("../examples/directory.yaml"),
    doc: "\
**Compares** type, owner, group and mode of the directory itself, not its contents. An unchanged step reports
`owner and mode match`.

**A change** creates the directory with its final owner and mode, or sets them on the existing one. The parent directory
must exist or be created by an earlier step: forge does not create parents. A file or link at the path blocks the step,
because forge never replaces it. A directory that belongs to another user than the declared owner also blocks the step
if users other than root can rename entries of the parent directory, because one of them may have put it there.

**Removal** removes an empty directory. A directory with entries blocks the step unless `recursive: true`, which removes
its contents on the same file system. The plan already lists entries that no earlier step removes. Top-level directories
(`/etc`) are never removed.",
    fields: &[
        FieldSpec::required("path", FieldType::Path, "Path of the directory on the host."),
        OWNER_FIELD,
        GROUP_FIELD,
        FieldSpec::optional("mode", FieldType::Mode, "Permission bits. Default `\"0755\"`."),
        FieldSpec::optional("recursive", FieldType::Bool, "Removal also removes the contents. Default `false`."),
    ],
    build,
    traits: KindTraits {
        guard: GuardSupport::Own,
        reach: EffectReach::Resource,
        exposure: PackageExposure::Directory,
        ..KindTraits::DEFAULT
    },
};

/// Exits 0 if `$FORGE_PATH` is empty, 1 if it has entries; prints up to 50 of them.
const IS_EMPTY: &str = r#"cd -- "$FORGE_PATH" || exit 2
n=0
for entry in * .[!.]* ..?*; do
  if [ -e "$entry" ] || [ -L "$entry" ]; then printf '%s/' "$entry"; n=$((n + 1)); [ "$n" -lt 50 ] || break; fi
done
[ "$n" = 0 ]"#;

/// Time limit for listing entries, in seconds.
const IS_EMPTY_LIMIT: u64 = 10;

#[derive(Debug)]
struct DirectoryResource {
    path: String,
    owner: String,
    group: String,
    mode: u32,
    recursive: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = required_text(fields, "path")?;
    let (owner, group) = parse_owner_and_group(fields)?;
    let recursive = fields.get_bool("recursive").unwrap_or(false);
    if absent && recursive {
        check_removable(path).map_err(|diag| diag.with_field("path"))?;
    }
    if absent && path.matches('/').count() < 2 {
        return Err(bad_value(format!("`{path}` is a top-level directory and is never removed")).with_field("path"));
    }
    Ok(Box::new(DirectoryResource {
        path: path.to_owned(),
        owner,
        group,
        mode: fields.get_mode("mode").unwrap_or(0o755),
        recursive,
        absent,
    }))
}

impl DirectoryResource {
    fn list_owners(&self) -> [AccountName; 2] {
        AccountName::list_owners(&self.owner, &self.group)
    }

    /// Returns the probe for entries, for a removal that must not remove contents.
    fn emptiness_probe(&self) -> Probe {
        Probe::Check(Box::new(CheckProbe {
            id: format!("whether `{}` is empty", self.path),
            script: IS_EMPTY.to_owned(),
            user: None,
            cwd: None,
            env: vec![("FORGE_PATH".to_owned(), self.path.clone())],
            timeout_s: Some(IS_EMPTY_LIMIT),
        }))
    }

    fn block_wrong_type(&self, info: &PathInfo) -> Assessment<DirectoryDiff> {
        let hint = match &info.target {
            Some(target) => {
                let target = resolve_link_target(&self.path, target.raw());
                match target.split('/').any(|part| part == "..") {
                    true => format!("declare the target of the link, which `readlink -f {}` prints", self.path),
                    false => format!("declare `{target}`, the target of the link"),
                }
            }
            None => "move it away, or remove it".to_owned(),
        };
        let reason = format!("`{}` is a {}, not a directory", self.path, describe_type(info));
        Assessment::blocked(BlockClass::Host, reason, type_basis(info)).hint(hint)
    }

    fn assess_present(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<DirectoryDiff>, UnansweredReason> {
        match path_state(seen, &path_probe(&self.path))? {
            PathState::Absent => Ok(match check_parent(&self.path, seen, cx.predicted)? {
                ParentState::There => self.assess_missing(),
                ParentState::Comes => self.assess_missing().mark_predicted(),
                ParentState::Blocks(parent) => parent.block(),
            }),
            PathState::Present(info) if info.kind == PathType::Directory => Ok(self.assess_existing(info, seen)),
            PathState::Present(info) => Ok(self.block_wrong_type(info)),
        }
    }

    fn assess_missing(&self) -> Assessment<DirectoryDiff> {
        let ownership = OwnershipDiff {
            owner: Some(ValueChange::create(self.owner.clone())),
            group: Some(ValueChange::create(self.group.clone())),
            mode: Some(ValueChange::create(format_mode(self.mode))),
        };
        let diff = DirectoryDiff::Create { path: self.path.clone(), ownership };
        let reason = format!("directory `{}` does not exist", self.path);
        Assessment::differs(reason, diff, DisruptionClass::D0, json!({ "type": "absent" }))
    }

    fn assess_existing(&self, info: &PathInfo, seen: &Observation) -> Assessment<DirectoryDiff> {
        let mut basis = json!({ "type": "directory" });
        add_ownership_basis(&mut basis, info);
        let ownership = OwnershipDiff::compare(info, &self.owner, &self.group, self.mode);
        if ownership.is_empty() {
            return Assessment::ok("owner and mode match", basis);
        }
        if ownership.owner.is_some() && self.may_belong_to_others(info, seen) {
            let (path, owner) = (&self.path, info.owner.raw());
            let reason =
                format!("`{path}` belongs to {owner}, and others may have put it there: forge does not give it away");
            return Assessment::blocked(BlockClass::Host, reason, basis).host_hint(self.ownership_hint(seen));
        }
        let diff = DirectoryDiff::Ownership(ownership);
        Assessment::differs(describe_differences(&diff.render_changes()), diff, DisruptionClass::D0, basis)
    }

    /// Reports whether another user may have put the directory at the path: one who can rename entries of its parent.
    fn may_belong_to_others(&self, info: &PathInfo, seen: &Observation) -> bool {
        let Some(above) = self.find_parent_info(seen) else { return false };
        // The mode of a link has no meaning, and only root's links are followed. The action checks the link's target.
        if above.kind != PathType::Directory {
            return false;
        }
        // The owner of the parent directory may give away their own entries.
        let is_open = above.owner.raw() != "root" || above.mode & 0o022 != 0 && above.mode & 0o1000 == 0;
        is_open && (info.owner != above.owner || above.owner.raw() == "root")
    }

    fn find_parent_info(&self, seen: &Observation) -> Option<PathInfo> {
        let above = path_probe(crate::resource::shared::support::parent_path(&self.path)?);
        match path_state(seen, &above) {
            Ok(PathState::Present(info)) => Some(PathInfo::clone(info)),
            _ => None,
        }
    }

    /// Returns a hint that lists the users who can rename entries of the parent directory. forge does not resolve the
    /// members of a group.
    fn ownership_hint(&self, seen: &Observation) -> String {
        let (Some(parent), Some(above)) =
            (crate::resource::shared::support::parent_path(&self.path), self.find_parent_info(seen))
        else {
            return CHANGE_OWNER_HINT.to_owned();
        };
        let who = match above.owner.raw() {
            "root" if above.mode & 0o002 != 0 => "every user".to_owned(),
            "root" => format!("group `{}`", above.group.raw()),
            owner => format!("user `{owner}`"),
        };
        format!("{who} can rename entries of `{parent}`: {CHANGE_OWNER_HINT}")
    }

    fn assess_absent(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<DirectoryDiff>, UnansweredReason> {
        match path_state(seen, &path_probe(&self.path))? {
            PathState::Absent => {
                let reason = format!("directory `{}` does not exist", self.path);
                Ok(Assessment::ok(reason, json!({ "type": "absent" })))
            }
            PathState::Present(info) if info.kind == PathType::Directory => self.assess_removal(info, seen, cx),
            PathState::Present(info) => Ok(self.block_wrong_type(info)),
        }
    }

    fn assess_removal(
        &self,
        info: &PathInfo,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<DirectoryDiff>, UnansweredReason> {
        let remove = |reason: String, empty: Value| {
            let diff = DirectoryDiff::Remove { path: self.path.clone(), before: info.clone() };
            Assessment::differs(reason, diff, DisruptionClass::D0, json!({ "type": "directory", "empty": empty }))
        };
        if self.recursive {
            return Ok(remove(format!("`{}` exists and is removed with its contents", self.path), Value::Null));
        }
        let empty = output(seen, &self.emptiness_probe())?;
        let after = cx.predicted.and_then(|p| p.after.as_deref());
        Ok(match (empty.status, after) {
            (0, _) => remove(format!("`{}` exists and is empty", self.path), json!(true)),
            (1, Some(_)) => match self.find_remaining_entry(empty.stdout.raw(), cx) {
                // Only predicted: another instance of the same step may remove it.
                Some(stays) => {
                    let reason = format!("`{}` is not empty, and no earlier step removes `{stays}`", self.path);
                    remove(reason, json!(false))
                        .mark_predicted()
                        .hint("remove it in an earlier step, or set `recursive: true` to remove the contents, too")
                }
                None => {
                    let stays = self.find_undeclared_entry(empty.stdout.raw(), cx);
                    let unless = stays.map(|stays| format!("; it stays unless one removes `{stays}`, too"));
                    let unless = unless.unwrap_or_default();
                    let reason = format!("`{}` is not empty; earlier steps may empty it{unless}", self.path);
                    remove(reason, json!(false)).mark_predicted()
                }
            },
            (1, None) => {
                self.block_nonempty("is not empty").hint("set `recursive: true` to remove it with its contents")
            }
            (status, _) => {
                let why = format!("entries of `{}` could not be read (exit status {status})", self.path);
                return Err(UnansweredReason::new(why).with_message(empty.stderr.clone()));
            }
        })
    }

    fn block_nonempty(&self, is: &str) -> Assessment<DirectoryDiff> {
        let basis = json!({ "type": "directory", "empty": false });
        Assessment::blocked(BlockClass::Host, format!("`{}` {is}", self.path), basis)
    }

    /// Returns the first of the `/`-separated entries that no earlier step removes, if the plan can predict it.
    fn find_remaining_entry<'e>(&self, entries: &'e str, cx: &AssessmentContext<'_>) -> Option<&'e str> {
        self.find_undeclared_entry(entries, cx).filter(|_| cx.predicted.is_some_and(|earlier| !earlier.takes_more))
    }

    /// Returns the first entry that no earlier step is declared to remove.
    fn find_undeclared_entry<'e>(&self, entries: &'e str, cx: &AssessmentContext<'_>) -> Option<&'e str> {
        let predicted = cx.predicted?;
        let goes = |entry: &str| predicted.will_go.contains(&format!("{}/{entry}", self.path));
        entries.split('/').find(|entry| !entry.is_empty() && !goes(entry))
    }

    fn render_script(&self, diff: &DirectoryDiff, run: &str) -> ShellFragment {
        let entered =
            || shell::open_directory_action(&self.path, &format!("{}:{}", self.owner, self.group), self.mode, run);
        match diff {
            DirectoryDiff::Remove { .. } if self.recursive => shell::remove_tree(&self.path),
            DirectoryDiff::Remove { .. } => shell::close_action(entered().code(REMOVE_EMPTY)),
            DirectoryDiff::Create { .. } | DirectoryDiff::Ownership(_) => {
                shell::close_action(entered().code(MAKE).code(GIVE))
            }
        }
    }
}

/// Returns the action that sets owner (`user:group`) and mode of an existing directory.
pub(super) fn set_ownership(path: &str, own: &str, mode: u32, run: &str) -> ShellFragment {
    shell::close_action(shell::open_directory_action(path, own, mode, run).code(GIVE))
}

/// How a directory differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum DirectoryDiff {
    Create { path: String, ownership: OwnershipDiff },
    Ownership(OwnershipDiff),
    Remove { path: String, before: PathInfo },
}

impl ResourceDiff for DirectoryDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Create { path, ownership } => {
                let made = AttributeChange::new("directory", None, Some(path));
                [made].into_iter().chain(ownership.render_changes()).collect()
            }
            Self::Ownership(ownership) => ownership.render_changes(),
            Self::Remove { path, .. } => vec![AttributeChange::new("directory", Some(path), None)],
        }
    }
}

const CHANGE_OWNER_HINT: &str = "check its contents, then run `chown` on the host or remove it, and run forge again";

/// GNU `chmod` and `install` keep the set-user-id and set-group-id bits of a directory unless the mode has five digits
/// (coreutils manual, 27.5). A directory inherits the second of them from its parent.
///
/// If other users can write to the parent directory, the directory gets owner and mode in a staging directory and is
/// renamed into place. Otherwise it is private until it has them.
const MAKE: &str = r#"
if [ ! -e "./$name" ] && [ ! -L "./$name" ]; then
  if [ -z "$shared" ] && [ "$me" = 0 ]; then
    install -d -o "${own%%:*}" -g "${own#*:}" -m "0$mode" -- "./$name" || fail "cannot make $path with owner $own and mode $mode"
    exit 0
  fi
  if [ -n "$shared" ]; then sweep; stage; fi
  mkdir -m 0700 -- "./$name" || fail "cannot make $path"
  chown -- "$own" "./$name" || fail "cannot give $path to $own"
  chmod -- "0$mode" "./$name" || fail "cannot set the mode of $path"
  [ -z "$shared" ] || mv -T -- "./$name" "../$name" || fail "cannot rename $dir/$box/$name to $path"
  exit 0
fi
"#;

/// Sets owner and mode on the directory that was entered, because another directory may take its name afterwards. A
/// user who can rename entries decides which directory that is, so forge rejects one that belongs to a third user.
const GIVE: &str = r#"
if [ -L "./$name" ]; then fail "$path is a symbolic link"; fi
[ -d "./$name" ] || fail "$path is not a directory"
cd -P -- "./$name" || fail "cannot enter $path"
if [ -n "$shared" ]; then
  set -- $(stat -c '%d:%i %u' -- . .. "../$name")
  [ $# -eq 6 ] && [ "$3" = "$here" ] && [ "$5" = "$1" ] || fail "$path was replaced while forge entered it"
  to=$(id -u -- "${own%%:*}" 2>/dev/null) || to=${own%%:*}
  if [ "$shared" = all ] && [ "$2" != "$to" ] && { [ "$2" != "$4" ] || owned "$4"; }; then
    fail "$path belongs to $(stat -c %U -- .), and others may have put it there: forge does not give it away"
  fi
fi
chown -- "$own" . || fail "cannot give $path to $own"
chmod -- "0$mode" . || fail "cannot set the mode of $path"
"#;

const REMOVE_EMPTY: &str = r#"
if [ -L "./$name" ]; then fail "$path is a symbolic link"; fi
rmdir -- "./$name" || fail "cannot remove $path"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    shell::EXPLAIN_UNSAFE_PATH,
    ("forge does not give it away", CHANGE_OWNER_HINT),
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a `group` step before this one"),
    ("Directory not empty", "set `recursive: true` to remove it with its contents"),
    ("a file system is mounted", "unmount it first"),
    ("Device or resource busy", "it is a mount point: unmount it first"),
    ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
];

impl DeclaredResource for DirectoryResource {
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
        let mut probes = vec![path_probe(&self.path)];
        match self.absent {
            true => {
                probes.push(mounts_probe(std::slice::from_ref(&self.path)));
                probes.extend((!self.recursive).then(|| self.emptiness_probe()));
            }
            false => {
                probes.extend(crate::resource::shared::support::parent_path(&self.path).map(path_probe));
                probes.extend(account_probes(&self.list_owners()));
            }
        }
        probes
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.path, "absent": true }),
            false => json!({
                "path": self.path, "owner": self.owner, "group": self.group, "mode": format_mode(self.mode),
            }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Path(self.path.clone())).into_iter().collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        Vec::new()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.path.clone())]
    }

    fn removed_trees(&self) -> Vec<String> {
        if self.absent && self.recursive { vec![self.path.clone()] } else { Vec::new() }
    }
}

impl TypedResource for DirectoryResource {
    type Diff = DirectoryDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<DirectoryDiff> {
        let judged = match self.absent {
            true => self
                .assess_absent(seen, cx)
                .map(|judgement| refuse_mounted_paths(judgement, std::slice::from_ref(&self.path), seen, cx)),
            false => self
                .assess_present(seen, cx)
                .map(|judgement| require_accounts(judgement, &self.list_owners(), seen, cx)),
        };
        judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &DirectoryDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(diff, cx.run), long: false, explain: EXPLAIN })
    }

    fn batch(&self, diff: &DirectoryDiff, cx: &AssessmentContext<'_>) -> Option<ActionBatch> {
        let DirectoryDiff::Create { path, .. } = diff else { return None };
        let (path, owner, group, run) = (path.clone(), self.owner.clone(), self.group.clone(), cx.run.to_owned());
        let new_path = Some(NewPath { path, owner, group, mode: self.mode, run, body: None });
        Some(ActionBatch { new_path, ..ActionBatch::new("make directories") })
    }

    /// The contents of a directory are not kept.
    fn guard(&self, diff: &DirectoryDiff) -> GuardEffect {
        match diff {
            DirectoryDiff::Create { path, .. } => GuardEffect::restore_paths([path]),
            DirectoryDiff::Ownership(_) => GuardEffect::restore_paths([&self.path]),
            DirectoryDiff::Remove { path, .. } if !self.recursive => GuardEffect::restore_paths([path]),
            DirectoryDiff::Remove { .. } => GuardEffect::default(),
        }
    }

    fn undo(&self, diff: &DirectoryDiff) -> UndoEffect {
        let present = |owner: &str, group: &str, mode: &str| {
            let fields = json!({ "path": self.path, "owner": owner, "group": group, "mode": mode });
            UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, fields)])
        };
        match diff {
            DirectoryDiff::Create { path, .. } => {
                UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, json!({ "path": path }))])
            }
            DirectoryDiff::Ownership(changes) => {
                let before = |change: &Option<ValueChange<String>>, same: String| {
                    change.as_ref().and_then(|change| change.from.clone()).unwrap_or(same)
                };
                present(
                    &before(&changes.owner, self.owner.clone()),
                    &before(&changes.group, self.group.clone()),
                    &before(&changes.mode, format_mode(self.mode)),
                )
            }
            DirectoryDiff::Remove { path, .. } if self.recursive => {
                UndoEffect::irreversible(&format!("the contents of `{path}` are not kept"))
            }
            DirectoryDiff::Remove { before, .. } => {
                present(before.owner.raw(), before.group.raw(), &format_mode(before.mode))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StepVerdict;
    use crate::probe::{ProbeReading, UserState};

    #[test]
    fn top_level_directories_are_never_removed() {
        for path in ["/", "/etc"] {
            let fields = FieldValues([("path", json!(path))].into_iter().collect());
            assert_eq!(
                build(&fields, true).unwrap_err().message,
                format!("`{path}` is a top-level directory and is never removed")
            );
            assert!(build(&fields, false).is_ok());
        }
    }

    /// Evaluates a directory owned by root and declared for `app`, in the directory `parent`.
    fn assess_under_parent(parent: &str, above: PathInfo) -> Assessment {
        let path = format!("{parent}/app");
        let fields = FieldValues([("path", json!(path)), ("owner", json!("app"))].into_iter().collect());
        let own = PathInfo { kind: PathType::Directory, mode: 0o755, ..PathInfo::root_file() };
        let mut seen = Observation::default();
        for (path, info) in [(path.as_str(), own), (parent, above)] {
            seen.insert(path_probe(path), Ok(ProbeReading::Path(PathState::Present(Box::new(info)))));
        }
        let account = ProbeReading::User(UserState::Present(Box::default()));
        seen.insert(Probe::User { name: "app".to_owned() }, Ok(account));
        build(&fields, false).unwrap().assess(&seen, &AssessmentContext::default())
    }

    #[test]
    fn parent_symlink_mode_does_not_block_owner_change() {
        let link =
            PathInfo { kind: PathType::Symlink, mode: 0o777, target: Some("/run".into()), ..PathInfo::root_file() };
        let judgement = assess_under_parent("/var/run", link);
        assert_eq!((judgement.verdict, judgement.reason.raw()), (StepVerdict::Change, "owner differs"));
    }

    #[test]
    fn hint_names_accounts_with_write_access_to_the_parent() {
        let above = |owner: &str, group: &str, mode| PathInfo {
            kind: PathType::Directory,
            owner: owner.into(),
            group: group.into(),
            mode,
            ..PathInfo::root_file()
        };
        let cases = [
            (above("root", "syslog", 0o775), "root", "group `syslog` can rename entries of `/var/log`"),
            (above("root", "root", 0o777), "root", "every user can rename entries of `/var/log`"),
            (above("web", "web", 0o755), "root", "user `web` can rename entries of `/var/log`"),
        ];
        for (above, owner, who) in cases {
            let judgement = assess_under_parent("/var/log", above);
            assert_eq!(judgement.verdict, StepVerdict::Blocked(BlockClass::Host));
            let why = "others may have put it there: forge does not give it away";
            assert_eq!(judgement.reason.raw(), format!("`/var/log/app` belongs to {owner}, and {why}"));
            assert_eq!(judgement.hint, Some(format!("{who}: {CHANGE_OWNER_HINT}")));
        }
        assert_eq!(assess_under_parent("/var/log", above("root", "syslog", 0o755)).verdict, StepVerdict::Change);
    }
}
