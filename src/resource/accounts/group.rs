//! `group`: a user group.

use crate::diag::Diag;
use crate::model::{DisruptionClass, UndoDeclaration, UndoEffect, Value};
use crate::probe::{GroupInfo, GroupState, Observation, Probe};
use crate::resource::shared::accounts::{
    AccountName, account_probes, assess_taken_number, assess_uncreated, expect_membership_changes, require_accounts,
};
use crate::resource::shared::file_target::describe_differences;
use crate::resource::shared::shell;
use crate::resource::shared::shell::RETRY_FUNCTION;
use crate::resource::shared::support::{bad_value, check_account_name, group_state, join_words, required_text};
use crate::resource::traits::{EffectReach, KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangeMark, ChangedObject,
    DeclaredMembership, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff,
    ResourceKind, TypedResource, ValueChange,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "group",
    summary: "A user group: gid and members.",
    example: include_str!("../examples/group.yaml"),
    doc: "\
**Compares** gid and members, if they are declared. An unchanged step reports what was compared:
`the group exists, gid and members match`.

`members` is the exact list of members, or the minimum with `append: true`. Users who have the group as their *primary*
group are not part of that list. A change that adds a member without an account is **blocked**, unless an earlier step
creates the account. With `create: false`, a missing group is **blocked**: the step only changes an existing one.

**A change** uses `groupadd`, `groupmod` and `gpasswd`, which lock the account files; forge waits for a lock held by
another program. A gid that belongs to another group blocks the step, and the message names that group.
**Disruption** is D1 if the gid of an existing group changes: files and running processes keep the old gid.

**Removal** uses `groupdel`, which fails while the group is a user's primary group. A user's own group is removed with
the user. `root` is never removed.",
    fields: FIELDS,
    build,
    traits: KindTraits { reach: EffectReach::Resource, exposure: PackageExposure::Unknown, ..KindTraits::DEFAULT },
};

/// Tolerates a missing group, which may have been removed with its user.
const REMOVE_GROUP: &str = "! getent group -- \"$name\" >/dev/null || patient groupdel -- \"$name\" || exit 1\n";

/// The highest gid that is not reserved.
const GID_MAX: i64 = 4_294_967_293;

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Group name."),
    FieldSpec::optional("gid", FieldType::Int { min: 0, max: GID_MAX }, "Group ID. Default: chosen by the host."),
    FieldSpec::optional("system", FieldType::Bool, "Create the group with a gid in the system range. Default `false`."),
    FieldSpec::optional("members", FieldType::List(&FieldType::Name), "Members of the group. Default: not compared."),
    FieldSpec::optional("append", FieldType::Bool, "Keep other members. Default `false`."),
    FieldSpec::optional("create", FieldType::Bool, "Whether a missing group is created. Default `true`."),
];

#[derive(Debug)]
struct GroupResource {
    name: String,
    gid: Option<u32>,
    system: bool,
    /// Sorted and deduplicated.
    members: Option<Vec<String>>,
    append: bool,
    /// Whether a missing group is created.
    create: bool,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    check_account_name("name", &name)?;
    if absent && name == "root" {
        return Err(bad_value("`root` is never removed").with_field("name"));
    }
    let members = fields.get_text_list("members").map(sort_names);
    members.iter().flatten().try_for_each(|member| check_account_name("members", member))?;
    let append = fields.get_bool("append").unwrap_or(false);
    if append && members.is_none() {
        return Err(bad_value("`append` needs `members`")
            .with_field("append")
            .hint("list the members that must be in the group"));
    }
    Ok(Box::new(GroupResource {
        name,
        gid: fields.get_int("gid").and_then(|gid| gid.try_into().ok()),
        system: fields.get_bool("system").unwrap_or(false),
        members,
        append,
        create: fields.get_bool("create").unwrap_or(true),
        absent,
    }))
}

fn sort_names(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

impl GroupResource {
    fn probe(&self) -> Probe {
        Probe::Group { name: self.name.clone(), gid: self.gid }
    }

    fn assess_removal(&self, state: &GroupState) -> Assessment<GroupDiff> {
        let Some(group) = &state.group else {
            return Assessment::ok("the group does not exist", json!({ "group": null }));
        };
        let diff = GroupDiff::Remove { name: self.name.clone(), before: group.clone() };
        Assessment::differs("the group exists", diff, DisruptionClass::D0, json!({ "group": { "gid": group.gid } }))
    }

    fn assess_presence(&self, state: &GroupState, cx: &AssessmentContext<'_>) -> Assessment<GroupDiff> {
        let judgement = match &state.group {
            None if !self.create => assess_uncreated(self.assess_missing(), &AccountName::Group(self.name.clone()), cx),
            None => self.assess_missing(),
            Some(group) => self.assess_existing(group),
        };
        let sets_gid = judgement.diff.as_ref().is_some_and(GroupDiff::sets_gid);
        match (self.gid, state.gid_of.as_ref().filter(|_| sets_gid)) {
            (Some(gid), Some(other)) => {
                assess_taken_number(judgement, ("gid", gid), &AccountName::Group(other.clone()), cx)
            }
            _ => judgement,
        }
    }

    fn assess_missing(&self) -> Assessment<GroupDiff> {
        let diff = GroupDiff::Create {
            name: self.name.clone(),
            gid: self.gid,
            members: self.members.clone().filter(|members| !members.is_empty()),
        };
        Assessment::differs("the group does not exist", diff, DisruptionClass::D0, json!({ "group": null }))
    }

    fn assess_existing(&self, group: &GroupInfo) -> Assessment<GroupDiff> {
        let (mut compared, mut seen) = (Vec::new(), json!({}));
        let (mut gid, mut members) = (None, None);
        if let Some(wanted) = self.gid {
            compared.push("gid");
            seen["gid"] = json!(group.gid);
            gid = (wanted != group.gid).then(|| ValueChange::new(group.gid, wanted));
        }
        if let Some(wanted) = self.wanted_members(&group.members) {
            compared.push("members");
            seen["members"] = json!(group.members);
            members = (wanted != group.members).then(|| ValueChange::new(group.members.clone(), wanted));
        }
        let basis = json!({ "group": seen });
        if gid.is_none() && members.is_none() {
            return Assessment::ok(describe_unchanged(&compared), basis);
        }
        let renumbered = gid.is_some();
        let diff = GroupDiff::Modify { gid, members };
        let more = if renumbered { "; files and running processes keep the old gid" } else { "" };
        let disruption = if renumbered { DisruptionClass::D1 } else { DisruptionClass::D0 };
        let reason = format!("{}{more}", describe_differences(&diff.render_changes()));
        Assessment::differs(reason, diff, disruption, basis)
    }

    /// Returns the desired members, given the current ones.
    fn wanted_members(&self, found: &[String]) -> Option<Vec<String>> {
        let members = self.members.clone()?;
        Some(if self.append { sort_names(members.into_iter().chain(found.to_vec()).collect()) } else { members })
    }

    /// Returns the accounts that become members.
    fn list_new_members(&self, diff: &GroupDiff) -> Vec<AccountName> {
        let changed = match diff {
            GroupDiff::Create { members, .. } => members.is_some(),
            GroupDiff::Modify { members, .. } => members.is_some(),
            GroupDiff::Remove { .. } => false,
        };
        if changed { self.list_members() } else { Vec::new() }
    }

    fn list_members(&self) -> Vec<AccountName> {
        self.members.iter().flatten().map(|member| AccountName::User(member.clone())).collect()
    }

    fn render_script(&self, diff: &GroupDiff) -> ShellFragment {
        let opened = shell::open_action().word(&self.name).code("\nname=$1").code(RETRY_FUNCTION);
        let (action, sets_members) = match diff {
            GroupDiff::Remove { .. } => (opened.code(REMOVE_GROUP), false),
            GroupDiff::Create { members, .. } => (self.render_creation(opened), members.is_some()),
            GroupDiff::Modify { gid: Some(_), members } => (
                append_gid(opened.code("patient groupmod"), self.gid).code(" -- \"$name\" || exit 1\n"),
                members.is_some(),
            ),
            GroupDiff::Modify { gid: None, members } => (opened, members.is_some()),
        };
        shell::close_action(if sets_members { self.render_members(action) } else { action })
    }

    fn render_creation(&self, action: ShellFragment) -> ShellFragment {
        let action = append_gid(action.code("patient groupadd"), self.gid);
        action.code(if self.system { " --system" } else { "" }).code(" -- \"$name\" || exit 1\n")
    }

    /// With `append` each member is added separately, so that members added concurrently are not lost.
    fn render_members(&self, action: ShellFragment) -> ShellFragment {
        let members = self.members.as_deref().unwrap_or_default();
        let one = |action: ShellFragment, member: &String| {
            action.code("patient gpasswd --add").word(member).code(" \"$name\" >/dev/null || exit 1\n")
        };
        match self.append {
            true => members.iter().fold(action, one),
            false => action
                .code("patient gpasswd --members")
                .word(members.join(","))
                .code(" \"$name\" >/dev/null || exit 1\n"),
        }
    }
}

/// How a group differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum GroupDiff {
    Create { name: String, gid: Option<u32>, members: Option<Vec<String>> },
    Modify { gid: Option<ValueChange<u32>>, members: Option<ValueChange<Vec<String>>> },
    Remove { name: String, before: GroupInfo },
}

impl GroupDiff {
    /// Returns the members before and after a change of an existing group.
    fn list_changed_members(&self) -> impl Iterator<Item = &String> {
        let members = match self {
            Self::Modify { members, .. } => members.as_ref(),
            Self::Create { .. } | Self::Remove { .. } => None,
        };
        members.into_iter().flat_map(|change| change.from.iter().chain(&change.to)).flatten()
    }

    fn sets_gid(&self) -> bool {
        matches!(self, Self::Create { gid: Some(_), .. } | Self::Modify { gid: Some(_), .. })
    }
}

impl ResourceDiff for GroupDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let gid_change = |gid: &ValueChange<u32>| gid.render_change("gid");
        match self {
            Self::Create { name, gid, members } => {
                let gid = gid.map(|gid| gid_change(&ValueChange::create(gid)));
                let members = members.as_ref().map(|all| AttributeChange::new("members", None, Some(&all.join(", "))));
                [AttributeChange::new("group", None, Some(name))].into_iter().chain(gid).chain(members).collect()
            }
            Self::Modify { gid, members } => {
                let text = |members: &Option<Vec<String>>| members.as_ref().map(|all| all.join(", "));
                let members = members.as_ref().map(|change| {
                    AttributeChange::new("members", text(&change.from).as_deref(), text(&change.to).as_deref())
                });
                gid.iter().map(gid_change).chain(members).collect()
            }
            Self::Remove { name, .. } => vec![AttributeChange::new("group", Some(name), None)],
        }
    }

    fn leads_elsewhere(&self) -> bool {
        matches!(self, Self::Modify { gid: Some(_), .. })
    }

    fn may_bar_login(&self) -> bool {
        !matches!(self, Self::Create { .. })
    }
}

fn append_gid(action: ShellFragment, gid: Option<u32>) -> ShellFragment {
    match gid {
        Some(gid) => action.code(" --gid").number(gid.into()),
        None => action,
    }
}

/// Returns the reason of an unchanged group.
fn describe_unchanged(compared: &[&str]) -> String {
    match compared {
        [] => "the group exists".to_owned(),
        ["gid"] => "the group exists, gid matches".to_owned(),
        several => format!("the group exists, {} match", join_words(several)),
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    ("primary group of user", "the group is a user's primary group: change or remove that user first"),
    ("already exists", "the gid belongs to another group: run `getent group` on the host"),
    ("does not exist", "a member has no account: add its `user` step before this one"),
    shell::EXPLAIN_LOCKED_ACCOUNTS,
];

impl DeclaredResource for GroupResource {
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
        let members = self.list_members();
        [self.probe()].into_iter().chain(account_probes(&members).filter(|_| !self.absent)).collect()
    }

    fn desired_value(&self) -> Value {
        if self.absent {
            return json!({ "name": self.name, "absent": true });
        }
        json!({ "name": self.name, "gid": self.gid, "members": self.members, "append": self.append })
    }

    fn declared_membership(&self) -> Option<DeclaredMembership> {
        let members = self.members.clone().filter(|_| !self.absent)?;
        Some(DeclaredMembership::OfGroup { group: self.name.clone(), members, exact: !self.append })
    }

    fn is_read_at_start(&self) -> bool {
        true
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        (!self.absent).then(|| ProvidedItem::Group(self.name.clone())).into_iter().collect()
    }
}

impl TypedResource for GroupResource {
    type Diff = GroupDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<GroupDiff> {
        match group_state(seen, &self.probe()) {
            Ok(state) if self.absent => self.assess_removal(state),
            Ok(state) => {
                let judgement = self.assess_presence(state, cx);
                let members = judgement.diff.as_ref().map(|diff| self.list_new_members(diff)).unwrap_or_default();
                let concerned = judgement.diff.iter().flat_map(GroupDiff::list_changed_members);
                let concerned = concerned.cloned().map(ProvidedItem::User).collect();
                let judgement = expect_membership_changes(judgement, concerned, cx);
                require_accounts(judgement, &members, seen, cx)
            }
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &GroupDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(diff), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &GroupDiff) -> UndoEffect {
        let mut fields = json!({ "name": self.name });
        let mut lost = None;
        match diff {
            GroupDiff::Create { .. } => return UndoEffect::declare(vec![UndoDeclaration::absent(KIND.name, fields)]),
            GroupDiff::Modify { gid, members } => {
                // A group that was deleted since has other attributes, too.
                fields["create"] = json!(false);
                if let Some(before) = gid.as_ref().and_then(|gid| gid.from) {
                    fields["gid"] = json!(before);
                }
                if let Some(before) = members.as_ref().and_then(|members| members.from.as_ref()) {
                    fields["members"] = json!(before);
                }
            }
            GroupDiff::Remove { name, before } => {
                fields["gid"] = json!(before.gid);
                fields["members"] = json!(before.members);
                fields["append"] = json!(true);
                lost = before.administered.then(|| format!("the administrators and the password of group `{name}`"));
            }
        }
        UndoEffect { lost, ..UndoEffect::declare(vec![UndoDeclaration::present(KIND.name, fields)]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)], absent: bool) -> String {
        build(&FieldValues(fields.iter().cloned().collect()), absent).unwrap_err().message
    }

    #[test]
    fn invalid_group_fields_are_rejected() {
        assert_eq!(build_error(&[("name", json!("root"))], true), "`root` is never removed");
        assert_eq!(build_error(&[("name", json!("100"))], false), "`name` is a number, not a name");
        assert_eq!(
            build_error(&[("name", json!("hpc")), ("members", json!(["a", "b:c"]))], false),
            "`members` contains `:`, which separates owner and group"
        );
        assert_eq!(build_error(&[("name", json!("hpc")), ("append", json!(true))], false), "`append` needs `members`");
    }

    #[test]
    fn duplicate_members_are_removed() {
        assert_eq!(sort_names(vec!["b".into(), "a".into(), "b".into()]), ["a", "b"]);
    }
}
