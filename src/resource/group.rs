//! `group`: a group of accounts.

use super::shell::PATIENT;
use super::support::{account_name, bad_value, group_state, join, required};
use super::{Action, Change, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type, shell};
use crate::diag::Diag;
use crate::model::{BlockClass, Disruption, Value};
use crate::probe::{GroupInfo, GroupState, Observation, Probe};
use crate::script::Fragment;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "group",
    summary: "A group of accounts: number and members.",
    example: include_str!("examples/group.yaml"),
    doc: "\
**Compared** are the number and the members, where they are declared. Nothing to do names what was compared:
`the group exists, and its gid and members are as declared`.

`members` is the exact list of those that the group names, or with `append: true` the least. An account whose
*primary* group this is does not stand in that list and is not counted. Members must have an account.

**A change** uses `groupadd`, `groupmod` and `gpasswd`, which lock the account files; a lock held by another
program is waited for. A number that another group has blocks the step and names that group.
**Disruption** is D1 when the number of an existing group changes: files and running processes keep the old one.

**Removal** uses `groupdel`, which refuses while an account has it as its primary group. An account's own
group goes with the account. `root` is never removed.",
    fields: FIELDS,
    build,
};

/// A group that is gone by now went with its account.
const GONE: &str = "! getent group -- \"$name\" >/dev/null || patient groupdel -- \"$name\" || exit 1\n";

/// The highest number that is not reserved.
const GID_MAX: i64 = 4_294_967_293;

const FIELDS: &[Field] = &[
    Field::required("name", Type::Name, "Name of the group."),
    Field::optional("gid", Type::Int { min: 0, max: GID_MAX }, "Number of the group; the host chooses when left out."),
    Field::optional("system", Type::Bool, "Whether a new group gets a number of the system range. Default `false`."),
    Field::optional("members", Type::List(&Type::Name), "Accounts that belong to it. Not looked at when left out."),
    Field::optional("append", Type::Bool, "Whether further members may stay. Default `false`."),
];

#[derive(Debug)]
struct Group {
    name: String,
    gid: Option<u32>,
    system: bool,
    /// Sorted, each once.
    members: Option<Vec<String>>,
    append: bool,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required(fields, "name")?.to_owned();
    account_name("name", &name)?;
    if absent && name == "root" {
        return Err(bad_value("`root` is never removed"));
    }
    let members = fields.texts("members").map(sorted);
    members.iter().flatten().try_for_each(|member| account_name("members", member))?;
    let append = fields.bool("append").unwrap_or(false);
    if append && members.is_none() {
        return Err(bad_value("`append` needs `members`").hint("name the members that must be there"));
    }
    Ok(Box::new(Group {
        name,
        gid: fields.int("gid").and_then(|gid| gid.try_into().ok()),
        system: fields.bool("system").unwrap_or(false),
        members,
        append,
        absent,
    }))
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

impl Group {
    fn probe(&self) -> Probe {
        Probe::Group { name: self.name.clone(), gid: self.gid }
    }

    fn judge_removal(&self, state: &GroupState) -> Judgement {
        let Some(group) = &state.group else {
            return Judgement::ok("there is no such group, as declared", json!({ "group": null }));
        };
        let changes = vec![Change::new("group", Some(&self.name), None)];
        Judgement::change("the group exists", changes, Disruption::D0, json!({ "group": { "gid": group.gid } }))
    }

    fn judge_presence(&self, state: &GroupState, cx: &Context<'_>) -> Judgement {
        let judgement = match &state.group {
            None => self.creation(),
            Some(group) => self.compare(group),
        };
        let renumbers = judgement.changes.iter().any(|c| c.attribute == "gid");
        match state.gid_of.as_deref().filter(|_| renumbers) {
            Some(other) => self.taken(other, judgement, cx),
            None => judgement,
        }
    }

    fn creation(&self) -> Judgement {
        let mut changes = vec![Change::new("group", None, Some(&self.name))];
        changes.extend(self.gid.map(|gid| Change::new("gid", None, Some(&gid.to_string()))));
        let members = self.members.as_ref().filter(|members| !members.is_empty());
        changes.extend(members.map(|members| Change::new("members", None, Some(&members.join(", ")))));
        Judgement::change("there is no such group", changes, Disruption::D0, json!({ "group": null }))
    }

    fn compare(&self, group: &GroupInfo) -> Judgement {
        let (mut compared, mut changes, mut seen) = (Vec::new(), Vec::new(), json!({}));
        if let Some(gid) = self.gid {
            compared.push("gid");
            seen["gid"] = json!(group.gid);
            let change = || Change::new("gid", Some(&group.gid.to_string()), Some(&gid.to_string()));
            changes.extend((gid != group.gid).then(change));
        }
        if let Some(members) = self.wanted(&group.members) {
            compared.push("members");
            seen["members"] = json!(group.members);
            let change = || Change::new("members", Some(&group.members.join(", ")), Some(&members.join(", ")));
            changes.extend((members != group.members).then(change));
        }
        let basis = json!({ "group": seen });
        if changes.is_empty() {
            return Judgement::ok(settled(&compared), basis);
        }
        let renumbered = changes.iter().any(|c| c.attribute == "gid");
        let more = if renumbered { "; files and running processes keep the old gid" } else { "" };
        let disruption = if renumbered { Disruption::D1 } else { Disruption::D0 };
        Judgement::change(format!("{}{more}", super::body::differ(&changes)), changes, disruption, basis)
    }

    /// Returns the members that are to be there, given those that are.
    fn wanted(&self, found: &[String]) -> Option<Vec<String>> {
        let members = self.members.clone()?;
        Some(if self.append { sorted(members.into_iter().chain(found.to_vec()).collect()) } else { members })
    }

    /// An earlier step may give the other group another number; else this one cannot have it.
    fn taken(&self, other: &str, judgement: Judgement, cx: &Context<'_>) -> Judgement {
        let gid = self.gid.unwrap_or_default();
        let reason = format!("gid {gid} belongs to the group `{other}`");
        if cx.predicted.is_some_and(|p| p.after.is_some()) {
            let reason = format!("{reason}, which an earlier step may change").into();
            return Judgement { reason, ..judgement }.predicted();
        }
        Judgement::blocked(BlockClass::Rule, reason, judgement.basis)
            .hint(format!("choose another `gid`, or give `{other}` another one in a step before this one"))
    }

    fn action(&self, judgement: &Judgement) -> Fragment {
        let differs = |attribute: &str| judgement.changes.iter().any(|c| c.attribute == attribute);
        let opened = shell::usual().word(&self.name).code("\nname=$1").code(PATIENT);
        if self.absent {
            return shell::close(opened.code(GONE));
        }
        let action = match differs("group") {
            true => self.create(opened),
            false if differs("gid") => {
                number(opened.code("patient groupmod"), self.gid).code(" -- \"$name\" || exit 1\n")
            }
            false => opened,
        };
        shell::close(if differs("members") { self.put_members(action) } else { action })
    }

    fn create(&self, action: Fragment) -> Fragment {
        let action = number(action.code("patient groupadd"), self.gid);
        action.code(if self.system { " --system" } else { "" }).code(" -- \"$name\" || exit 1\n")
    }

    /// With `append` each is added on its own, so that nobody who joins meanwhile is lost.
    fn put_members(&self, action: Fragment) -> Fragment {
        let members = self.members.as_deref().unwrap_or_default();
        let one = |action: Fragment, member: &String| {
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

fn number(action: Fragment, gid: Option<u32>) -> Fragment {
    match gid {
        Some(gid) => action.code(" --gid").number(gid.into()),
        None => action,
    }
}

/// Returns why nothing is to do.
fn settled(compared: &[&str]) -> String {
    match compared {
        [] => "the group exists".to_owned(),
        ["gid"] => "the group exists, and its gid is as declared".to_owned(),
        several => format!("the group exists, and its {} are as declared", join(several)),
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    ("primary group of user", "an account has it as its primary group: change or remove that account first"),
    ("already exists", "the number belongs to another group: see `getent group` on the host"),
    ("does not exist", "a member has no account: add its `user` step before this one"),
    ("cannot lock", "another program holds the lock of the account files"),
];

impl Resource for Group {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![self.probe()]
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match group_state(seen, &self.probe()) {
            Ok(state) if self.absent => self.judge_removal(state),
            Ok(state) => self.judge_presence(state, cx),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    fn act(&self, judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action { body: self.action(judgement), long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        if self.absent {
            return json!({ "name": self.name, "absent": true });
        }
        json!({ "name": self.name, "gid": self.gid, "members": self.members, "append": self.append })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, Value)], absent: bool) -> String {
        build(&Fields(fields.iter().cloned().collect()), absent).unwrap_err().message
    }

    #[test]
    fn what_cannot_be_a_group_is_refused() {
        assert_eq!(refused(&[("name", json!("root"))], true), "`root` is never removed");
        assert_eq!(refused(&[("name", json!("100"))], false), "`name` is a number; hosts are compared by name");
        assert_eq!(
            refused(&[("name", json!("hpc")), ("members", json!(["a", "b:c"]))], false),
            "`members` holds a `:`, which separates owner and group"
        );
        assert_eq!(refused(&[("name", json!("hpc")), ("append", json!(true))], false), "`append` needs `members`");
    }

    #[test]
    fn members_are_a_set() {
        assert_eq!(sorted(vec!["b".into(), "a".into(), "b".into()]), ["a", "b"]);
    }
}
