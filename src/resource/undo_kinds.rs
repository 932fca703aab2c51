//! The kinds that declare a state before a run.

use super::assessment::AssessmentContext;
use super::earlier_effects::EarlierStepEffects;
use super::field::{FieldType, FieldValues};
use super::kind::{Resource, ResourceKind};
use super::shared::support::{ONLY_UNCHANGED, provides_unit};
use super::system::unit::UNITS_FOLDER;
use super::{accounts, cluster, files, generic, packages, system};
use crate::model::{StepVerdict, UndoDeclaration, Value};
use crate::probe::Observation;
use serde_json::json;
use std::collections::BTreeMap;

/// Kinds of which [`TypedResource::undo`](super::kind::TypedResource::undo) returns declarations. None of them calls the
/// cluster's API.
const UNDO_KINDS: [&ResourceKind; 15] = [
    &files::restore::KIND,
    &files::directory::KIND,
    &files::line::KIND,
    &files::archive::KIND,
    &packages::package::KIND,
    &packages::installer::KIND,
    &system::service::KIND,
    &system::timer::KIND,
    &system::mount::KIND,
    &system::kernel_cmdline::KIND,
    &system::initramfs::KIND,
    &system::nftables::KIND,
    &accounts::user::KIND,
    &accounts::group::KIND,
    &generic::command::KIND,
];

/// The same for changes of the cluster. None of them runs on a host.
const CLUSTER_UNDO_KINDS: [&ResourceKind; 3] =
    [&cluster::node::restore::KIND, &cluster::restore_object::KIND, &cluster::helm_release::restore::KIND];

/// Reports whether a declaration may come from a host's undo journal, or from that of the cluster. A host must not gain
/// anything by changing its journal: it cannot name a file of the controller or an object of the cluster.
pub fn is_undo_declaration(declared: &UndoDeclaration, of_cluster: bool) -> bool {
    let is_declared = |name: &str| declared.fields.get(name).is_some();
    find_undo_kind(&declared.kind, of_cluster).is_some_and(|kind| {
        kind.fields.iter().all(|field| !is_read_from_controller(&field.ty) || !is_declared(field.name))
    })
}

fn find_undo_kind(name: &str, of_cluster: bool) -> Option<&'static ResourceKind> {
    let kinds: &[&'static ResourceKind] = if of_cluster { &CLUSTER_UNDO_KINDS } else { &UNDO_KINDS };
    kinds.iter().find(|kind| kind.name == name).copied()
}

/// Makes declarations of accounts and groups agree about memberships. `declared` is in the order of the undo: the last one
/// has the state before the first change of the run. Each of them lists all that were there.
pub fn align_memberships(declared: &mut [UndoDeclaration]) {
    for at in 1..declared.len() {
        let (earlier, later) = declared.split_at_mut(at);
        earlier.iter_mut().for_each(|earlier| align_membership(earlier, &later[0]));
    }
}

/// Makes the members or groups of `earlier` agree with those of `later`. What the run removed is created again by `earlier`
/// while the other may still be missing: then `later` alone makes the membership.
fn align_membership(earlier: &mut UndoDeclaration, later: &UndoDeclaration) {
    let (group, user) = (accounts::group::KIND.name, accounts::user::KIND.name);
    let (own_field, other_field, account) = match (&*earlier.kind, &*later.kind) {
        (kind, other) if kind == group && other == user => ("members", "groups", later),
        (kind, other) if kind == user && other == group => ("groups", "members", &*earlier),
        _ => return,
    };
    let primary = account.fields.get("group").unwrap_or(&account.fields["name"]);
    let group_name = if own_field == "members" { &earlier.fields["name"] } else { &later.fields["name"] };
    if earlier.absent || later.absent || primary == group_name {
        return;
    }
    let (name, is_new) = (earlier.fields["name"].clone(), earlier.fields["append"] == true);
    let Some(others) = later.fields[other_field].as_array() else { return };
    let Some(own) = earlier.fields[own_field].as_array_mut() else { return };
    let (is_listed, other) = (others.contains(&name), &later.fields["name"]);
    if is_new || !is_listed {
        own.retain(|own| own != other);
    } else if !own.contains(other) {
        own.push(other.clone());
    }
}

/// Makes declarations of the same unit agree: several steps of a run can change it, as some units change together with
/// others. The order is that of [`align_memberships`].
pub fn align_units(declared: &mut [UndoDeclaration]) {
    for at in 1..declared.len() {
        let (earlier, later) = declared.split_at_mut(at);
        earlier.iter_mut().for_each(|earlier| align_unit(earlier, &mut later[0]));
    }
}

/// Gives `earlier` the state of `later`, and its place in the undo: a unit starts once its files are restored.
fn align_unit(earlier: &mut UndoDeclaration, later: &mut UndoDeclaration) {
    let is_unit = |declared: &UndoDeclaration| declared.kind == system::service::KIND.name && !declared.absent;
    if !is_unit(earlier) || !is_unit(later) || earlier.fields["name"] != later.fields["name"] {
        return;
    }
    for field in ["state", "enabled"] {
        match later.fields.get(field) {
            Some(value) if value != "any" => earlier.fields[field] = value.clone(),
            _ => {}
        }
    }
    earlier.restarts |= later.restarts;
    earlier.follows |= later.follows;
    if earlier.fields["reload"] == true || later.fields["reload"] == true {
        earlier.fields["reload"] = json!(true);
        later.fields["reload"] = json!(true);
    }
}

/// Returns whether systemd needs the file at `path` to stop or disable the unit of a declaration: its own, or that of its
/// template.
pub fn needs_unit_file(declared: &UndoDeclaration, path: &str) -> bool {
    let file = path.strip_prefix(UNITS_FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let unit = declared.fields["name"].as_str().filter(|_| declared.kind == system::service::KIND.name);
    file.zip(unit).is_some_and(|(file, unit)| provides_unit(file, unit))
}

/// Returns a declaration of a host's journal as it is planned: with `overwrite`, a removal also takes changes that
/// were made after the run.
pub fn permit_overwrite(declared: &UndoDeclaration, overwrite: bool) -> UndoDeclaration {
    let mut permitted = declared.clone();
    if overwrite && let Some(guarded) = permitted.fields.get_mut(ONLY_UNCHANGED) {
        *guarded = json!(false);
    }
    permitted
}

/// What the declarations of a step of the cluster depend on besides the step's own journal.
#[derive(Debug)]
pub struct ClusterUndoContext<'j> {
    /// Whether objects that were changed after the run are restored, too.
    pub overwrite: bool,
    /// The uids of the objects that the step created, by their claims.
    pub created: &'j BTreeMap<String, String>,
    /// When the journal of the run was begun. RFC 3339, by the API's clock.
    pub since: &'j str,
    /// The declarations of all steps that are undone.
    pub others: Vec<&'j UndoDeclaration>,
}

impl ClusterUndoContext<'_> {
    /// Returns a declaration of the journal as it is planned.
    pub fn complete_declaration(&self, declared: &UndoDeclaration) -> UndoDeclaration {
        let mut complete = match declared.kind == cluster::restore_object::KIND.name {
            true => cluster::restore_object::complete_declaration(declared, self.created, self.since, &self.others),
            false => declared.clone(),
        };
        if self.overwrite {
            complete.fields["overwrite"] = json!(true);
        }
        complete
    }
}

/// Returns why the present state does not allow a declaration of the cluster: a lowercase fragment. `None` if it does.
pub fn find_cluster_refusal(declared: &UndoDeclaration, seen: &Observation) -> Option<String> {
    let resource = match build_cluster_undo(declared) {
        Ok(resource) => resource,
        Err(why) => return Some(why),
    };
    // Whatever the other steps of the undo remove is removed before.
    let earlier = EarlierStepEffects { after: Some(declared.kind.clone()), ..EarlierStepEffects::default() };
    let cx = AssessmentContext { predicted: Some(&earlier), ..AssessmentContext::default() };
    let judgement = resource.assess(seen, &cx);
    match judgement.verdict {
        StepVerdict::Blocked(_) => Some(judgement.reason.raw().to_owned()),
        StepVerdict::Unknown => Some(format!("its present state is not known: {}", judgement.reason.raw())),
        _ => None,
    }
}

/// Builds the resource that a declaration of the cluster's journal describes.
///
/// # Errors
/// The declaration is not valid: a lowercase fragment.
pub fn build_cluster_undo(declared: &UndoDeclaration) -> Result<Box<dyn Resource>, String> {
    let kind = find_undo_kind(&declared.kind, true)
        .ok_or_else(|| format!("the journal was altered: no undo declares `{}`", declared.kind))?;
    let built = (kind.build)(&collect_fields(kind, &declared.fields), declared.absent);
    built.map_err(|diag| format!("the journal was altered: {}", diag.message))
}

/// Returns why a recipe cannot declare what the journal of a host holds: a lowercase fragment. The state before may be
/// one that forge never makes: a file whose owner has no name, an account without a shell.
pub fn find_declaration_error(declared: &UndoDeclaration) -> Option<String> {
    let kind = find_undo_kind(&declared.kind, false)?;
    let fields = collect_fields(kind, &declared.fields);
    let paths = kind.fields.iter().filter(|field| matches!(field.ty, FieldType::Path));
    let relative = paths.filter_map(|field| Some((field.name, fields.get_text(field.name)?)));
    let relative = relative.filter(|(_, path)| !path.starts_with('/'));
    let why = match relative.map(|(name, path)| format!("`{name}` is `{path}`, not an absolute path")).next() {
        Some(why) => why,
        None => (kind.build)(&fields, declared.absent).err()?.message,
    };
    Some(format!("no recipe can declare the state before: {why}"))
}

/// Returns the values of the kind's fields. Unknown ones are left to the reader of the generated recipe.
pub(in crate::resource) fn collect_fields(kind: &ResourceKind, fields: &Value) -> FieldValues {
    let known = kind.fields.iter().filter_map(|field| Some((field.name, fields.get(field.name)?.clone())));
    FieldValues(known.collect())
}

fn is_read_from_controller(field: &FieldType) -> bool {
    matches!(field, FieldType::LocalFile | FieldType::LocalPath | FieldType::LocalDocuments | FieldType::Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_one_unit_agree_on_its_first_state() {
        let unit = |name: &str, fields: Value| {
            let mut all = json!({ "name": name });
            let (Value::Object(all_fields), Value::Object(fields)) = (&mut all, fields) else { unreachable!() };
            all_fields.extend(fields);
            UndoDeclaration::present("service", all)
        };
        let mut declared = [
            unit("a.socket", json!({ "state": "stopped", "enabled": true })),
            unit("b.service", json!({ "state": "stopped" })),
            UndoDeclaration { follows: true, ..unit("a.socket", json!({ "state": "running", "reload": true })) },
            unit("b.service", json!({ "state": "any", "enabled": false })),
        ];
        align_units(&mut declared);
        let socket = json!({ "name": "a.socket", "state": "running", "enabled": true, "reload": true });
        assert_eq!((&declared[0].fields, declared[0].follows), (&socket, true));
        assert_eq!(declared[1].fields, json!({ "name": "b.service", "state": "stopped", "enabled": false }));
    }

    #[test]
    fn unit_needs_its_file_or_that_of_its_template() {
        let unit = |name: &str| UndoDeclaration::present("service", json!({ "name": name, "state": "stopped" }));
        assert!(needs_unit_file(&unit("w@1"), "/etc/systemd/system/w@.service"));
        assert!(needs_unit_file(&unit("w.timer"), "/etc/systemd/system/w.timer"));
        assert!(!needs_unit_file(&unit("w.timer"), "/etc/systemd/system/w.service"));
        assert!(!needs_unit_file(&unit("w"), "/etc/systemd/system/w.service.d/a.conf"));
        let user = UndoDeclaration::present("user", json!({ "name": "w" }));
        assert!(!needs_unit_file(&user, "/etc/systemd/system/w.service"));
    }

    #[test]
    fn no_undo_kind_calls_the_api_or_downloads() {
        assert!(UNDO_KINDS.iter().all(|kind| !kind.traits.in_cluster && !kind.traits.downloads));
        let declared = UndoDeclaration::present("manifest", json!({}));
        assert!(!is_undo_declaration(&declared, false) && !is_undo_declaration(&declared, true));
        let node = UndoDeclaration::present("restore_node", json!({}));
        assert!(!is_undo_declaration(&node, false) && is_undo_declaration(&node, true));
        assert!(CLUSTER_UNDO_KINDS.iter().all(|kind| kind.traits.in_cluster && !kind.traits.downloads));
    }

    fn align(mut declared: [UndoDeclaration; 2]) -> [UndoDeclaration; 2] {
        align_memberships(&mut declared);
        declared
    }

    fn declare_account(kind: &str, name: &str, list: &[&str], is_new: bool) -> UndoDeclaration {
        let mut fields = json!({ "name": name, (if kind == "group" { "members" } else { "groups" }): list });
        if is_new {
            fields["append"] = json!(true);
        }
        UndoDeclaration::present(kind, fields)
    }

    #[test]
    fn membership_of_a_removed_account_is_restored_with_the_later_declaration() {
        let user = |groups: &[&str]| declare_account("user", "eve", groups, true);
        let group = |members: &[&str]| declare_account("group", "grp", members, true);
        let aligned = align([group(&["bob", "eve"]), user(&["adm", "grp"])]);
        assert_eq!(aligned, [group(&["bob"]), user(&["adm", "grp"])]);
        let aligned = align([user(&["adm", "grp"]), group(&["bob", "eve"])]);
        assert_eq!(aligned, [user(&["adm"]), group(&["bob", "eve"])]);
    }

    #[test]
    fn state_before_the_first_change_of_a_membership_is_restored() {
        let user = |groups: &[&str]| declare_account("user", "eve", groups, false);
        let group = |members: &[&str]| declare_account("group", "grp", members, false);
        assert_eq!(align([group(&[]), user(&["grp"])]), [group(&["eve"]), user(&["grp"])]);
        assert_eq!(align([group(&["eve"]), user(&[])]), [group(&[]), user(&[])]);
        assert_eq!(align([user(&["adm"]), group(&["eve"])]), [user(&["adm", "grp"]), group(&["eve"])]);
        let aligned = align([group(&["bob", "eve"]), user(&["grp"])]);
        assert_eq!(aligned, [group(&["bob", "eve"]), user(&["grp"])]);
        let own = declare_account("group", "eve", &[], false);
        assert_eq!(align([own.clone(), user(&["eve"])]), [own, user(&["eve"])], "an account's own group needs no list");
    }

    #[test]
    fn state_that_no_recipe_declares_is_found() {
        let find = |kind: &str, fields: Value| find_declaration_error(&UndoDeclaration::present(kind, fields));
        let directory = |owner: &str| json!({ "path": "/d", "owner": owner, "group": "root", "mode": "0755" });
        let why = "no recipe can declare the state before: `owner` is a number, not a name";
        assert_eq!(find("directory", directory("5555")).as_deref(), Some(why));
        assert_eq!(find("directory", directory("eve")), None);
        let why = "no recipe can declare the state before: `shell` is ``, not an absolute path";
        assert_eq!(find("user", json!({ "name": "eve", "shell": "" })).as_deref(), Some(why));
        assert_eq!(find("user", json!({ "name": "eve", "shell": "/bin/sh", "groups": ["adm"] })), None);
        let why = "no recipe can declare the state before: `group` is a number, not a name";
        assert_eq!(find("user", json!({ "name": "eve", "group": "8123" })).as_deref(), Some(why));
    }

    #[test]
    fn host_cannot_name_a_file_of_the_controller() {
        let archive = |field: &str| UndoDeclaration::absent("archive", json!({ "into": "/opt/x", field: "a.tar" }));
        assert!(is_undo_declaration(&archive("path"), false) && !is_undo_declaration(&archive("source"), false));
        let mount = json!({ "path": "/a", "source": "tmpfs", "fstype": "tmpfs" });
        assert!(is_undo_declaration(&UndoDeclaration::absent("mount", mount), false));
        assert!(!is_undo_declaration(&UndoDeclaration::present("file", json!({ "source": "/etc/shadow" })), false));
    }
}
