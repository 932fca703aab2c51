//! `user`: an account on the host.

use crate::diag::Diag;
use crate::model::{DisruptionClass, Value};
use crate::probe::{Observation, Probe, UnansweredReason, UserInfo, UserState};
use crate::resource::shared::shell;
use crate::resource::shared::shell::RETRY_FUNCTION;
use crate::resource::shared::support::{bad_value, check_account_name, required_text, user_state};
use crate::resource::traits::{EffectReach, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceKind,
};
use crate::script::ShellFragment;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "user",
    summary: "An account on the host: uid, groups, home, shell, lock.",
    example: include_str!("../examples/user.yaml"),
    doc: "\
**Compared** are only the declared attributes. An unchanged step lists them: `the account exists, uid and shell match`.

`groups` is the exact set of supplementary groups, or with `append: true` the minimum set. Groups must exist; the
account's own group, which has its name, is created with it.

**A change** uses `useradd`, `usermod` and `userdel`, which lock the account files; forge waits if another program holds
the lock. A new home path is only recorded in the account; no files are moved. **Disruption** is D1 if the `uid` of an
existing account changes: its running processes and its files outside home keep the old uid.

`locked: false` unlocks an existing password; an account without a password cannot be unlocked. This kind does not set
passwords.

**Removal** keeps the home directory unless `remove_home: true`. An account with running processes is not removed.
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
    locked: Option<bool>,
    remove_home: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    check_account_name("name", &name)?;
    if absent && name == "root" {
        return Err(bad_value("`root` is never removed"));
    }
    let group = fields.get_text("group").map(str::to_owned);
    let groups = fields.get_text_list("groups").map(|groups| sort_groups(groups, group.as_deref()));
    group.iter().chain(groups.iter().flatten()).try_for_each(|group| check_account_name("group", group))?;
    let comment = fields.get_text("comment").map(str::to_owned);
    if comment.as_ref().is_some_and(|c| c.contains(':')) {
        return Err(bad_value("`comment` contains `:`, which separates the fields of an account"));
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

    fn assess_removal(&self, state: &UserState) -> Assessment {
        match state {
            UserState::Absent => Assessment::ok("the account does not exist", json!({ "user": null })),
            UserState::Present(info) => {
                let home =
                    if self.remove_home { format!("; its home `{}` is removed too", info.home) } else { String::new() };
                let changes = vec![AttributeChange::new("user", Some(&self.name), None)];
                let basis = json!({ "user": { "uid": info.uid, "home": info.home } });
                Assessment::change(format!("the account exists{home}"), changes, DisruptionClass::D0, basis)
            }
        }
    }

    fn assess_missing(&self) -> Assessment {
        let mut changes = vec![AttributeChange::new("user", None, Some(&self.name))];
        let uid = self.uid.map(|uid| uid.to_string());
        let groups = self.groups.as_ref().map(|groups| groups.join(", "));
        let declared = [
            ("uid", &uid),
            ("group", &self.group),
            ("groups", &groups),
            ("home", &self.home),
            ("shell", &self.shell),
            ("comment", &self.comment),
        ];
        for (attribute, value) in declared {
            changes.extend(value.as_ref().map(|value| AttributeChange::new(attribute, None, Some(value))));
        }
        Assessment::change("the account does not exist", changes, DisruptionClass::D0, json!({ "user": null }))
    }

    fn assess_existing(&self, info: &UserInfo) -> Result<Assessment, UnansweredReason> {
        let mut table = UserComparison::default();
        table.compare_text("uid", self.uid.map(|uid| uid.to_string()), &info.uid.to_string());
        table.compare_text("group", self.group.clone(), &info.group);
        self.compare_groups(info, &mut table);
        table.compare_text("home", self.home.clone(), &info.home);
        table.compare_text("shell", self.shell.clone(), &info.shell);
        table.compare_text("comment", self.comment.clone(), info.gecos.raw());
        if let Some(locked) = self.locked {
            let found =
                info.locked.ok_or_else(|| UnansweredReason::new("whether the password is locked could not be read"))?;
            let word = |locked: bool| if locked { "locked" } else { "not locked" };
            table.compare_text("password", Some(word(locked).to_owned()), word(found));
        }
        Ok(table.into_assessment())
    }

    fn compare_groups(&self, info: &UserInfo, table: &mut UserComparison) {
        let Some(groups) = &self.groups else { return };
        let found = sort_groups(info.groups.clone(), Some(&info.group));
        let wanted = sort_groups(groups.clone(), self.group.is_none().then_some(info.group.as_str()));
        let wanted = match self.append {
            true => sort_groups(wanted.into_iter().chain(found.clone()).collect(), None),
            false => wanted,
        };
        table.compare_text("groups", Some(wanted.join(", ")), &found.join(", "));
    }

    fn render_script(&self, judgement: &Assessment) -> ShellFragment {
        let opened = shell::open_action()
            .word(&self.name)
            .word(self.group.as_deref().unwrap_or(&self.name))
            .code("\nname=$1 group=$2")
            .code(RETRY_FUNCTION);
        let creates = judgement.changes.iter().any(|c| c.attribute == "user");
        shell::close_action(match (self.absent, creates) {
            (true, _) => opened.code(if self.remove_home { REMOVE_WITH_HOME } else { REMOVE }),
            (false, true) => self.render_creation(opened),
            (false, false) => self.render_modification(opened, judgement),
        })
    }

    fn render_creation(&self, action: ShellFragment) -> ShellFragment {
        let no_groups = self.groups.as_ref().is_none_or(Vec::is_empty);
        let action = self.append_options(action.code(OWN_GROUP), |attribute| attribute != "groups" || !no_groups);
        let action = if self.system { action.code(" --system") } else { action };
        let action = action.code(if self.create_home { " --create-home" } else { " --no-create-home" });
        let action = action.code(" \"$@\" -- \"$name\" || exit 1\n");
        // A new account has no password, so it is created locked.
        if self.locked == Some(false) { action.code(UNLOCK) } else { action }
    }

    fn render_modification(&self, action: ShellFragment, judgement: &Assessment) -> ShellFragment {
        let differs = |attribute: &str| judgement.changes.iter().any(|c| c.attribute == attribute);
        let mut action = action;
        if judgement.changes.iter().any(|c| c.attribute != "password") {
            action = self.append_options(action.code("patient usermod"), differs);
            if differs("group") {
                action = action.code(" --gid \"$group\"");
            }
            if differs("groups") && self.append {
                action = action.code(" --append");
            }
            action = action.code(" -- \"$name\" || exit 1\n");
        }
        match self.locked.filter(|_| differs("password")) {
            Some(true) => action.code("patient usermod --lock -- \"$name\" || exit 1\n"),
            Some(false) => action.code(UNLOCK),
            None => action,
        }
    }

    /// Appends the common options of `useradd` and `usermod`.
    fn append_options(&self, action: ShellFragment, admits: impl Fn(&str) -> bool) -> ShellFragment {
        let mut action = action;
        if let Some(uid) = self.uid.filter(|_| admits("uid")) {
            action = action.code(" -u").number(uid.into());
        }
        let groups = self.groups.as_ref().filter(|_| admits("groups"));
        if let Some(groups) = groups {
            action = action.code(" -G").word(groups.join(","));
        }
        if let Some(home) = self.home.as_ref().filter(|_| admits("home")) {
            action = action.code(" -d").word(home);
        }
        if let Some(shell) = self.shell.as_ref().filter(|_| admits("shell")) {
            action = action.code(" -s").word(shell);
        }
        if let Some(comment) = self.comment.as_ref().filter(|_| admits("comment")) {
            action = action.code(" -c").word(comment);
        }
        action
    }
}

/// Comparison of the declared attributes.
#[derive(Default)]
struct UserComparison {
    names: Vec<&'static str>,
    changes: Vec<AttributeChange>,
    basis: serde_json::Map<String, Value>,
}

impl UserComparison {
    fn compare_text(&mut self, attribute: &'static str, wanted: Option<String>, found: &str) {
        let Some(wanted) = wanted else { return };
        self.names.push(attribute);
        self.basis.insert(attribute.to_owned(), json!(found));
        if wanted != found {
            self.changes.push(AttributeChange::new(attribute, Some(found), Some(&wanted)));
        }
    }

    fn into_assessment(self) -> Assessment {
        let basis = json!({ "user": self.basis });
        if self.changes.is_empty() {
            return Assessment::ok(describe_unchanged(&self.names), basis);
        }
        let mut reason = crate::resource::shared::file_target::describe_differences(&self.changes);
        let renumbered = self.changes.iter().any(|c| c.attribute == "uid");
        if renumbered {
            reason.push_str("; running processes and files outside home keep the old uid");
        }
        Assessment::change(
            reason,
            self.changes,
            if renumbered { DisruptionClass::D1 } else { DisruptionClass::D0 },
            basis,
        )
    }
}

/// Returns the reason of a step without changes.
fn describe_unchanged(compared: &[&str]) -> String {
    match compared {
        [] => "the account exists".to_owned(),
        [one] if !one.ends_with('s') => format!("the account exists, {one} matches"),
        several => format!("the account exists, {} match", crate::resource::shared::support::join_words(several)),
    }
}

/// Creates a group with the account's own name, unless it exists already.
const OWN_GROUP: &str = r#"
if [ "$group" = "$name" ] && ! getent group "$group" >/dev/null; then set -- --user-group; else set -- --gid "$group"; fi
patient useradd"#;

const UNLOCK: &str = "patient usermod --unlock -- \"$name\" || exit 1\n";
const REMOVE: &str = "patient userdel -- \"$name\" || exit 1\n";
const REMOVE_WITH_HOME: &str = r#"patient userdel --remove -- "$name"
status=$?
# 12: the account is gone, but its home or mail was not there to be removed.
if [ "$status" -ne 0 ] && [ "$status" -ne 12 ]; then exit 1; fi
"#;

const EXPLAIN: &[(&str, &str)] = &[
    ("is currently used by process", "the account has running processes: stop them first"),
    ("is currently logged in", "the account is logged in: end its sessions first"),
    ("is not unique", "the uid belongs to another account: run `getent passwd` on the host"),
    ("does not exist", "a group does not exist: add a `group` step before this one"),
    ("passwordless", "the account has no password to unlock: set one, or omit `locked`"),
    ("cannot lock", "another program holds the lock of the account files"),
];

impl DeclaredResource for UserResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
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

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::User(self.name.clone())).into_iter().collect()
    }
}

impl Resource for UserResource {
    fn assess(&self, seen: &Observation, _cx: &AssessmentContext<'_>) -> Assessment {
        let judged = user_state(seen, &self.probe()).and_then(|state| match (self.absent, state) {
            (true, state) => Ok(self.assess_removal(state)),
            (false, UserState::Absent) => Ok(self.assess_missing()),
            (false, UserState::Present(info)) => self.assess_existing(info),
        });
        judged.unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    fn render_action(&self, judgement: &Assessment, _cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(judgement), long: false, explain: EXPLAIN })
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
            "`group` contains `:`, which separates owner and group"
        );
    }

    #[test]
    fn primary_group_is_excluded_from_supplementary_groups() {
        assert_eq!(sort_groups(vec!["b".into(), "a".into(), "b".into(), "p".into()], Some("p")), ["a", "b"]);
    }
}
