//! `user`: an account on the host.

mod account_script;
mod user_diff;

use self::account_script::{EXPLAIN, OWN_GROUP, REMOVE, TAKE_BACK, UNLOCK, render_removal_with_home};
use self::user_diff::{UserAttributes, UserComparison, UserDiff, describe_lock};
use crate::diag::Diag;
use crate::model::{BlockClass, DisruptionClass, StepVerdict, UndoDeclaration, UndoEffect, Value};
use crate::probe::{CheckProbe, Observation, PathState, PathType, Probe, UnansweredReason, UserInfo, UserState};
use crate::resource::shared::accounts::{
    AccountName, account_probes, assess_taken_number, assess_uncreated, expect_membership_changes, require_accounts,
};
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::mounted_paths::{home_mounts_probe, refuse_mounts};
use crate::resource::shared::shell;
use crate::resource::shared::shell::RETRY_FUNCTION;
use crate::resource::shared::support::{
    bad_value, check_account_name, output, path_state, required_text, user_state, will_be_provided,
};
use crate::resource::traits::{EffectReach, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredMembership,
    DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
    ValueChange,
};
use crate::script::ShellFragment;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "user",
    summary: "An account on the host: uid, groups, home, shell, lock.",
    example: include_str!("../../examples/user.yaml"),
    doc: "\
**Compared** are only the declared attributes. An unchanged step lists them: `the account exists, uid and shell match`.

`groups` is the exact set of supplementary groups, or with `append: true` the minimum set. The account's own group, which
has its name, is created with it. A change that needs another group is **blocked** unless the group exists or an earlier
step creates it; so is a `uid` that belongs to another account, which the message names.

**A change** uses `useradd`, `usermod` and `userdel`, which lock the account files; forge waits if another program holds
the lock. A new home path is only recorded in the account; no files are moved. **Disruption** is D1 if the `uid` of an
existing account changes: its running processes and its files outside home keep the old uid.

The login shell must be an executable file: otherwise the step is **blocked**, also if the account has that shell,
because its logins fail. An earlier step may bring it.

`locked: false` unlocks an existing password. **Blocked**: the account has no password, which includes every new account.
This kind does not set passwords.

With `create: false`, a missing account is **blocked**: the step only changes an existing one.

**Removal** keeps the home directory unless `remove_home: true`. Nothing is removed if the home belongs to another account,
is not a directory, is a system directory, or has a file system mounted at it or in it. An account with running processes is not removed.
`root` is never removed.",
    fields: FIELDS,
    build,
    traits: KindTraits {
        removes_more: true,
        reach: EffectReach::Resource,
        exposure: PackageExposure::Unknown,
        claim_probe: Some(claim_probe),
        ..KindTraits::DEFAULT
    },
};

fn claim_probe(name: &str) -> Option<Probe> {
    Some(Probe::User { name: name.to_owned() })
}

/// The highest uid that is not reserved (`(uid_t) -1`, and -2 for the historical `nobody`).
const UID_MAX: i64 = 4_294_967_293;

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Login name."),
    FieldSpec::optional("uid", FieldType::Int { min: 0, max: UID_MAX }, "User ID. Default: chosen by the host."),
    FieldSpec::optional("group", FieldType::Name, "Primary group. Default for a new account: a group with its name."),
    FieldSpec::optional("groups", FieldType::List(&FieldType::Name), "Supplementary groups."),
    FieldSpec::optional("append", FieldType::Bool, "Keep further supplementary groups. Default `false`."),
    FieldSpec::optional("home", FieldType::Path, "Home directory."),
    FieldSpec::optional("shell", FieldType::Path, "Login shell."),
    FieldSpec::optional("comment", FieldType::Line, "The GECOS field, usually the full name."),
    FieldSpec::optional("system", FieldType::Bool, "Create a new account with a system uid. Default `false`."),
    FieldSpec::optional(
        "create_home",
        FieldType::Bool,
        "Create the home directory of a new account. Default `true`, for a system account `false`.",
    ),
    FieldSpec::optional("create", FieldType::Bool, "Whether a missing account is created. Default `true`."),
    FieldSpec::optional("locked", FieldType::Bool, "Whether the password is locked. Default: not compared."),
    FieldSpec::optional("remove_home", FieldType::Bool, "Whether removal deletes home and mail. Default `false`."),
];

#[derive(Debug)]
struct UserResource {
    name: String,
    uid: Option<u32>,
    group: Option<String>,
    groups: Option<Vec<String>>,
    append: bool,
    home: Option<String>,
    shell: Option<String>,
    comment: Option<String>,
    system: bool,
    create_home: bool,
    /// Whether a missing account is created.
    create: bool,
    locked: Option<bool>,
    remove_home: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    check_account_name("name", &name)?;
    if absent && name == "root" {
        return Err(bad_value("`root` is never removed").with_field("name"));
    }
    let group = fields.get_text("group").map(str::to_owned);
    let groups = fields.get_text_list("groups").map(|groups| sort_groups(groups, group.as_deref()));
    group.iter().try_for_each(|group| check_account_name("group", group))?;
    groups.iter().flatten().try_for_each(|group| check_account_name("groups", group))?;
    let comment = fields.get_text("comment").map(str::to_owned);
    if comment.as_ref().is_some_and(|c| c.contains(':')) {
        return Err(bad_value("`comment` contains `:`, which separates the fields of an account").with_field("comment"));
    }
    let system = fields.get_bool("system").unwrap_or(false);
    Ok(Box::new(UserResource {
        name,
        uid: fields.get_int("uid").and_then(|uid| uid.try_into().ok()),
        group,
        groups,
        append: fields.get_bool("append").unwrap_or(false),
        home: fields.get_text("home").map(str::to_owned),
        shell: fields.get_text("shell").map(str::to_owned),
        comment,
        system,
        create_home: fields.get_bool("create_home").unwrap_or(!system),
        create: fields.get_bool("create").unwrap_or(true),
        locked: fields.get_bool("locked"),
        remove_home: fields.get_bool("remove_home").unwrap_or(false),
        absent,
    }))
}

/// Returns the sorted supplementary groups without the primary group.
fn sort_groups(mut groups: Vec<String>, primary: Option<&str>) -> Vec<String> {
    groups.retain(|group| Some(group.as_str()) != primary);
    groups.sort();
    groups.dedup();
    groups
}

impl UserResource {
    fn probe(&self) -> Probe {
        Probe::User { name: self.name.clone() }
    }

    /// Returns the probe for the account that has the declared uid.
    fn uid_probe(&self) -> Option<Probe> {
        let uid = self.uid.filter(|_| !self.absent)?;
        Some(Probe::Check(Box::new(CheckProbe {
            id: format!("uid {uid}"),
            script: HOLDER_OF_UID.to_owned(),
            user: None,
            cwd: None,
            env: vec![("FORGE_UID".to_owned(), uid.to_string())],
            timeout_s: Some(HOLDER_LIMIT),
        })))
    }

    /// Returns the probe of the declared shell.
    fn shell_probe(&self) -> Option<Probe> {
        let shell = self.shell.as_ref().filter(|_| !self.absent)?;
        Some(path_probe(shell))
    }

    /// Blocks an account with a shell that cannot be executed. An earlier step may bring it.
    fn require_shell(
        &self,
        judgement: Assessment<UserDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Assessment<UserDiff> {
        let (Some(shell), Some(probe)) = (&self.shell, self.shell_probe()) else { return judgement };
        let is_missing = match path_state(seen, &probe) {
            Ok(state) => !may_be_executed(state),
            // A recording of a former release: the shell was not looked at.
            Err(unknown) if unknown.unrecorded => false,
            Err(unknown) => return Assessment::unknown(&unknown),
        };
        let may_come = || {
            will_be_provided(cx.predicted, &ProvidedItem::Path(shell.clone()))
                || cx.predicted.is_some_and(|earlier| earlier.is_opaque || earlier.may_bring_files)
        };
        let is_decided = matches!(judgement.verdict, StepVerdict::Ok | StepVerdict::Change);
        if !is_missing || !is_decided || may_come() {
            return judgement;
        }
        let reason = format!("login shell `{shell}` is not an executable file: logins of the account fail");
        let blocked = Assessment::blocked(BlockClass::Host, reason, json!({ "shell": null }));
        blocked.hint("install it with a step before this one, or declare another `shell`")
    }

    /// Returns the declared groups. The account's own group is created with it.
    fn list_declared_groups(&self) -> Vec<AccountName> {
        let all = self.group.iter().chain(self.groups.iter().flatten());
        all.map(|group| AccountName::Group(group.clone())).collect()
    }

    fn creates_own_group(&self) -> bool {
        self.group.as_ref().is_none_or(|group| *group == self.name)
    }

    /// Returns the groups that a change needs.
    fn list_needed_groups(&self, diff: &UserDiff) -> Vec<AccountName> {
        let (sets_group, sets_groups, own) = match diff {
            UserDiff::Create { .. } => (true, true, self.creates_own_group().then_some(&self.name)),
            UserDiff::Modify(attributes) => (attributes.group.is_some(), attributes.groups.is_some(), None),
            UserDiff::Remove { .. } => (false, false, None),
        };
        let group = self.group.iter().filter(|_| sets_group);
        let groups = self.groups.iter().flatten().filter(|_| sets_groups);
        let needed = group.chain(groups).filter(|group| Some(*group) != own);
        needed.map(|group| AccountName::Group(group.clone())).collect()
    }

    /// Checks that a change is possible: the groups exist, and no other account has the uid.
    fn require_possible(
        &self,
        judgement: Assessment<UserDiff>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<UserDiff>, UnansweredReason> {
        let Some(diff) = judgement.diff.clone() else { return Ok(judgement) };
        let judgement = match (self.uid, self.find_uid_holder(&diff, seen)?) {
            (Some(uid), Some(holder)) => assess_taken_number(judgement, ("uid", uid), &holder, cx),
            _ => judgement,
        };
        let concerned = diff.list_changed_groups().cloned().map(ProvidedItem::Group).collect();
        let judgement = expect_membership_changes(judgement, concerned, cx);
        Ok(require_accounts(judgement, &self.list_needed_groups(&diff), seen, cx))
    }

    /// Returns the other account that has the uid which the change sets.
    fn find_uid_holder(&self, diff: &UserDiff, seen: &Observation) -> Result<Option<AccountName>, UnansweredReason> {
        let Some(probe) = self.uid_probe().filter(|_| diff.sets_uid()) else { return Ok(None) };
        let found = output(seen, &probe)?;
        let name = found.stdout.raw().split(':').next().unwrap_or_default();
        match found.status {
            0 if name != self.name => Ok(Some(AccountName::User(name.to_owned()))),
            0 | 2 => Ok(None),
            status => {
                let why = format!("the account with the uid could not be looked up (exit status {status})");
                Err(UnansweredReason::new(why).with_message(found.stderr.clone()))
            }
        }
    }

    fn assess_removal(&self, state: &UserState) -> Assessment<UserDiff> {
        match state {
            UserState::Absent => Assessment::ok("the account does not exist", json!({ "user": null })),
            UserState::Present(info) => {
                let home =
                    if self.remove_home { format!("; its home `{}` is removed too", info.home) } else { String::new() };
                let diff = UserDiff::Remove { name: self.name.clone(), before: UserInfo::clone(info) };
                let basis = json!({ "user": { "uid": info.uid, "home": info.home } });
                Assessment::differs(format!("the account exists{home}"), diff, DisruptionClass::D0, basis)
            }
        }
    }

    /// Returns the home directory that a new account gets. The default is that of `useradd`, unless the host's
    /// `/etc/default/useradd` sets another one; the step that needs it is evaluated again before it runs.
    fn created_home(&self) -> Option<String> {
        let home = || self.home.clone().unwrap_or_else(|| format!("/home/{}", self.name));
        (self.create_home && !self.absent).then(home)
    }

    fn assess_missing(&self) -> Assessment<UserDiff> {
        let created = |value: &Option<String>| value.clone().map(ValueChange::create);
        let attributes = UserAttributes {
            uid: self.uid.map(ValueChange::create),
            group: created(&self.group),
            groups: self.groups.clone().map(ValueChange::create),
            home: created(&self.home),
            shell: created(&self.shell),
            comment: created(&self.comment),
            // A new account has no password to compare.
            locked: None,
        };
        let diff = UserDiff::Create { name: self.name.clone(), attributes };
        Assessment::differs("the account does not exist", diff, DisruptionClass::D0, json!({ "user": null }))
    }

    fn assess_existing(&self, info: &UserInfo) -> Result<Assessment<UserDiff>, UnansweredReason> {
        let mut table = UserComparison::default();
        let attributes = UserAttributes {
            uid: table.compare("uid", info.uid, self.uid, u32::to_string),
            group: table.compare("group", info.group.clone(), self.group.clone(), String::clone),
            groups: self.compare_groups(info, &mut table),
            home: table.compare("home", info.home.clone(), self.home.clone(), String::clone),
            shell: table.compare("shell", info.shell.clone(), self.shell.clone(), String::clone),
            comment: table.compare("comment", info.gecos.raw().to_owned(), self.comment.clone(), String::clone),
            locked: self.compare_lock(info, &mut table)?,
        };
        Ok(table.into_assessment(attributes))
    }

    /// Reports whether the password would have to be unlocked, but there is none.
    fn lacks_password(&self, info: &UserInfo) -> bool {
        self.locked == Some(false) && info.locked == Some(true) && info.has_password == Some(false)
    }

    fn compare_groups(&self, info: &UserInfo, table: &mut UserComparison) -> Option<ValueChange<Vec<String>>> {
        let groups = self.groups.as_ref()?;
        let found = sort_groups(info.groups.clone(), Some(&info.group));
        let wanted = sort_groups(groups.clone(), self.group.is_none().then_some(info.group.as_str()));
        let wanted = match self.append {
            true => sort_groups(wanted.into_iter().chain(found.clone()).collect(), None),
            false => wanted,
        };
        table.compare("groups", found, Some(wanted), |groups| groups.join(", "))
    }

    fn compare_lock(
        &self,
        info: &UserInfo,
        table: &mut UserComparison,
    ) -> Result<Option<ValueChange<bool>>, UnansweredReason> {
        let Some(locked) = self.locked else { return Ok(None) };
        let found =
            info.locked.ok_or_else(|| UnansweredReason::new("whether the password is locked could not be read"))?;
        Ok(table.compare("password", found, Some(locked), |locked| describe_lock(*locked).to_owned()))
    }

    fn render_script(&self, diff: &UserDiff) -> ShellFragment {
        let opened = shell::open_action()
            .word(&self.name)
            .word(self.group.as_deref().unwrap_or(&self.name))
            .code("\nname=$1 group=$2")
            .code(RETRY_FUNCTION);
        shell::close_action(match diff {
            UserDiff::Remove { before, .. } if self.remove_home => render_removal_with_home(opened, before),
            UserDiff::Remove { .. } => opened.code(REMOVE),
            UserDiff::Create { attributes, .. } => self.render_creation(opened, attributes),
            UserDiff::Modify(attributes) => self.render_modification(opened, attributes),
        })
    }

    fn render_creation(&self, action: ShellFragment, attributes: &UserAttributes) -> ShellFragment {
        let own = self.creates_own_group().then_some(&self.name);
        let groups = self.groups.iter().flatten().filter(|group| Some(*group) != own).cloned().collect();
        let groups = Some(&groups).filter(|groups: &&Vec<String>| !groups.is_empty());
        let action = append_options(action.code(OWN_GROUP), attributes, groups);
        let action = if self.system { action.code(" --system") } else { action };
        let action = action.code(if self.create_home { " --create-home" } else { " --no-create-home" });
        // A new account has no password, so it is created locked.
        action.code(" \"$@\" -- \"$name\"").code(TAKE_BACK)
    }

    fn render_modification(&self, action: ShellFragment, attributes: &UserAttributes) -> ShellFragment {
        let mut action = action;
        if !attributes.changes_only_lock() {
            // With `--append` the account keeps the groups that are not declared.
            let groups = self.groups.as_ref().filter(|_| attributes.groups.is_some());
            action = append_options(action.code("patient usermod"), attributes, groups);
            if attributes.group.is_some() {
                action = action.code(" --gid \"$group\"");
            }
            if groups.is_some() && self.append {
                action = action.code(" --append");
            }
            action = action.code(" -- \"$name\" || exit 1\n");
        }
        match attributes.locked.as_ref().and_then(|change| change.to) {
            Some(true) => action.code("patient usermod --lock -- \"$name\" || exit 1\n"),
            Some(false) => action.code(UNLOCK),
            None => action,
        }
    }
}

/// Appends the common options of `useradd` and `usermod`.
fn append_options(action: ShellFragment, attributes: &UserAttributes, groups: Option<&Vec<String>>) -> ShellFragment {
    let mut action = action;
    if let Some(uid) = attributes.uid.as_ref().and_then(|change| change.to) {
        action = action.code(" -u").number(uid.into());
    }
    if let Some(groups) = groups {
        action = action.code(" -G").word(groups.join(","));
    }
    for (option, change) in [(" -d", &attributes.home), (" -s", &attributes.shell), (" -c", &attributes.comment)] {
        if let Some(value) = change.as_ref().and_then(|change| change.to.as_ref()) {
            action = action.code(option).word(value);
        }
    }
    action
}

fn block_unlock(account: &str) -> Assessment<UserDiff> {
    let reason = format!("{account} has no password that could be unlocked");
    Assessment::blocked(BlockClass::Host, reason, json!({ "user": { "password": null } }))
        .host_hint("set a password first with `passwd`, or omit `locked`")
}

/// Reports whether a path is an executable file, or a link that leads to something.
fn may_be_executed(state: &PathState) -> bool {
    match state {
        PathState::Present(info) if info.kind == PathType::File => info.mode & 0o111 != 0,
        PathState::Present(info) => info.kind == PathType::Symlink && !info.dangling,
        PathState::Absent => false,
    }
}

/// Prints the account with a uid. Status 2 if no account has it.
const HOLDER_OF_UID: &str = "getent passwd \"$FORGE_UID\"";

/// Time limit for the account with a uid, in seconds: a directory service may be asked.
const HOLDER_LIMIT: u64 = 20;

impl DeclaredResource for UserResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Account(self.name.clone())
    }

    fn probes(&self) -> Vec<Probe> {
        let groups = self.list_declared_groups();
        let groups = account_probes(&groups).filter(|_| !self.absent);
        let mounts = (self.absent && self.remove_home).then(|| home_mounts_probe(&self.name));
        let own = [self.probe()].into_iter().chain(mounts);
        own.chain(self.uid_probe()).chain(self.shell_probe()).chain(groups).collect()
    }

    fn desired_value(&self) -> Value {
        if self.absent {
            return json!({ "name": self.name, "absent": true });
        }
        json!({
            "name": self.name, "uid": self.uid, "group": self.group, "groups": self.groups, "append": self.append,
            "home": self.home, "shell": self.shell, "comment": self.comment, "locked": self.locked,
        })
    }

    fn declared_membership(&self) -> Option<DeclaredMembership> {
        let groups = self.groups.clone().filter(|_| !self.absent)?;
        let primary = self.group.as_ref().unwrap_or(&self.name).clone();
        Some(DeclaredMembership::OfUser { user: self.name.clone(), primary, groups, exact: !self.append })
    }

    fn is_read_at_start(&self) -> bool {
        true
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        if self.absent {
            return Vec::new();
        }
        let creates_group = self.create && self.creates_own_group();
        let group = creates_group.then(|| ProvidedItem::Group(self.name.clone()));
        let home = self.created_home().filter(|_| self.create).map(ProvidedItem::Path);
        [ProvidedItem::User(self.name.clone())].into_iter().chain(group).chain(home).collect()
    }
}

impl TypedResource for UserResource {
    type Diff = UserDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<UserDiff> {
        let judged = user_state(seen, &self.probe()).and_then(|state| match (self.absent, state) {
            (true, state) if self.remove_home => {
                Ok(refuse_mounts(self.assess_removal(state), &home_mounts_probe(&self.name), seen, cx))
            }
            (true, state) => Ok(self.assess_removal(state)),
            (false, UserState::Absent) if !self.create => {
                let account = AccountName::User(self.name.clone());
                Ok(assess_uncreated(self.assess_missing(), &account, cx))
            }
            (false, UserState::Absent) if self.locked == Some(false) => Ok(block_unlock("a new account")),
            (false, UserState::Absent) => Ok(self.assess_missing()),
            (false, UserState::Present(info)) if self.lacks_password(info) => Ok(block_unlock("the account")),
            (false, UserState::Present(info)) => self.assess_existing(info),
        });
        let judged = judged.and_then(|judgement| self.require_possible(judgement, seen, cx));
        let judged = judged.map(|judgement| self.require_shell(judgement, seen, cx));
        judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn act(&self, diff: &UserDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(diff), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &UserDiff) -> UndoEffect {
        match diff {
            UserDiff::Create { name, .. } => {
                let removed = UndoDeclaration::absent(KIND.name, json!({ "name": name }));
                UndoEffect::declare(vec![removed]).leaving(format!("the home directory of `{name}`, if one was made"))
            }
            UserDiff::Modify(attributes) => {
                let fields = attributes.declare_before(&self.name);
                UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, fields)])
            }
            UserDiff::Remove { name, before } if before.locked == Some(true) && !self.remove_home => {
                let fields = json!({
                    "name": name, "uid": before.uid, "group": before.group, "groups": before.groups, "append": true,
                    "home": before.home, "shell": before.shell, "comment": before.gecos, "create_home": false,
                });
                let ages = if before.ages { ", its ageing and the expiry of the account" } else { "" };
                let lost = Some(format!("the locked password of `{name}`, if it had one{ages}"));
                UndoEffect { lost, ..UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, fields)]) }
            }
            UserDiff::Remove { name, .. } if self.remove_home => {
                UndoEffect::irreversible(&format!("the home directory of `{name}` is not kept"))
            }
            UserDiff::Remove { name, .. } => UndoEffect::irreversible(&format!("the password of `{name}` is not kept")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)], absent: bool) -> String {
        build(&FieldValues(fields.iter().cloned().collect()), absent).unwrap_err().message
    }

    #[test]
    fn invalid_user_fields_are_rejected() {
        assert_eq!(build_error(&[("name", json!("root"))], true), "`root` is never removed");
        assert_eq!(
            build_error(&[("name", json!("a")), ("comment", json!("x:y"))], false),
            "`comment` contains `:`, which separates the fields of an account"
        );
        assert_eq!(
            build_error(&[("name", json!("a")), ("groups", json!(["b:c"]))], false),
            "`groups` contains `:`, which separates owner and group"
        );
    }

    #[test]
    fn new_account_provides_its_home() {
        let provided = |entries: &[(&'static str, Value)]| {
            build(&FieldValues(entries.iter().cloned().collect()), false).unwrap().provided_items()
        };
        let (name, user) = (("name", json!("bob")), ProvidedItem::User("bob".to_owned()));
        let own = [user.clone(), ProvidedItem::Group("bob".to_owned())];
        let home = |path: &str| [own.as_slice(), &[ProvidedItem::Path(path.to_owned())]].concat();
        assert_eq!(provided(std::slice::from_ref(&name)), home("/home/bob"));
        assert_eq!(provided(&[name.clone(), ("home", json!("/srv/bob"))]), home("/srv/bob"));
        assert_eq!(provided(&[name.clone(), ("system", json!(true))]), own);
        let elsewhere = [name.clone(), ("group", json!("staff")), ("create_home", json!(false))];
        assert_eq!(provided(&elsewhere), std::slice::from_ref(&user));
        assert_eq!(provided(&[name, ("create", json!(false))]), [user], "nothing is created with the account");
    }

    #[test]
    fn primary_group_is_excluded_from_supplementary_groups() {
        assert_eq!(sort_groups(vec!["b".into(), "a".into(), "b".into(), "p".into()], Some("p")), ["a", "b"]);
    }
}
