//! Evaluates recorded states of releases.

use super::*;
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use crate::object::{
    ChartCrd, ChartHook, ChartInfo, DoomedDefinition, FieldChange, FieldOwner, ForeignRelease, LiveObject,
    ObjectChange, ObjectChangeKind, ReleaseFieldConflict, ReleaseInfo, ReleaseState, ReleaseStatus, UnownedDefinition,
};
use crate::probe::ProbeReading;
use crate::resource::assessment::ErasedDiff;

fn make_fields(entries: &[(&'static str, Value)]) -> FieldValues {
    let own = [("name", json!("r")), ("namespace", json!("ns"))];
    FieldValues(own.into_iter().chain(entries.iter().cloned()).collect())
}

fn build_error(entries: &[(&'static str, Value)]) -> String {
    build(&make_fields(entries), false).unwrap_err().message
}

#[test]
fn exactly_one_complete_chart_source_is_required() {
    assert_eq!(build_error(&[]), "a release needs `chart`, `path` or `built_in`");
    assert_eq!(build_error(&[("chart", json!("tiny"))]), "`chart` needs `repository`");
    assert_eq!(build_error(&[("repository", json!("https://a"))]), "`repository` needs `chart`");
    assert_eq!(
        build_error(&[("path", json!("/c")), ("chart", json!("a"))]),
        "`path` excludes `chart` and `repository`"
    );
    assert_eq!(build_error(&[("path", json!("/c"))]), "a chart needs its exact `version`");
    let both = |name: &str, url: &str| {
        build_error(&[("chart", json!(name)), ("repository", json!(url)), ("version", json!("1"))])
    };
    assert_eq!(both("tiny", "ftp://a"), "`repository` is not an `https://…` URL");
    assert_eq!(both("--post-renderer", "https://a"), "`--post-renderer` is not a valid chart name");
    let digest = [("path", json!("/c")), ("version", json!("1")), ("sha256", json!("12"))];
    assert_eq!(build_error(&digest), "`sha256` is not 64 hexadecimal digits");
    assert!(build(&make_fields(&[("chart", json!("oci://a/b")), ("version", json!("1"))]), false).is_ok());
    assert!(build(&make_fields(&[]), true).is_ok());
}

#[test]
fn built_in_chart_excludes_other_chart_sources() {
    let shipped = ("built_in", json!("rdma-shared-device-plugin"));
    let resource = build(&make_fields(std::slice::from_ref(&shipped)), false).unwrap();
    assert_eq!(resource.desired_value()["version"], "1.0.0");
    let excluded = "`built_in` excludes `chart`, `repository`, `path`, `version` and `sha256`";
    assert_eq!(build_error(&[shipped.clone(), ("path", json!("/c"))]), excluded);
    assert_eq!(build_error(&[shipped, ("version", json!("1.0.0"))]), excluded);
    let error = build(&make_fields(&[("built_in", json!("rdma-shared-device-plugins"))]), false).unwrap_err();
    assert_eq!(error.message, "built-in chart `rdma-shared-device-plugins` does not exist");
    assert_eq!(error.hint.as_deref(), Some("did you mean `rdma-shared-device-plugin`?"));
}

#[test]
fn invalid_release_name_is_rejected() {
    let named = |name: &str| {
        build(&FieldValues([("name", json!(name)), ("namespace", json!("ns"))].into_iter().collect()), true)
    };
    assert!(named("gpu-operator").is_ok());
    for name in ["", "-a", "a-", "A", "a.b", "a_b"] {
        assert!(named(name).is_err(), "{name}");
    }
    let long = "a".repeat(54);
    assert_eq!(named(&long).unwrap_err().message, format!("`{long}` is not a valid `name`"));
}

fn make_release_info(status: ReleaseStatus) -> ReleaseInfo {
    let (chart, version) = ("tiny".to_owned(), "0.1.0".to_owned());
    ReleaseInfo { revision: 3, status, chart, version, age_s: 100, earlier: true, ours: true, ..ReleaseInfo::default() }
}

fn make_release_state(status: ReleaseStatus) -> ReleaseState {
    let chart = ChartInfo {
        name: "tiny".to_owned(),
        version: "0.1.0".to_owned(),
        crds: vec![ChartCrd { name: "gadgets.tiny".to_owned(), present: true, outdated: false }],
        hooks: vec![ChartHook {
            object: "Job h".to_owned(),
            events: vec!["pre-install".to_owned(), "pre-upgrade".to_owned()],
        }],
        images: vec!["a:1".to_owned()],
        sources: Default::default(),
    };
    ReleaseState { release: Some(make_release_info(status)), chart: Some(chart), ..ReleaseState::default() }
}

fn make_field_change(path: &str, from: &str, to: &str) -> FieldChange {
    FieldChange { path: path.to_owned(), from: Some(from.into()), to: Some(to.into()), secret: false, by: None }
}

fn assess_with(extra: &[(&'static str, Value)], absent: bool, state: ReleaseState) -> Assessment {
    let own = [("path", json!("/c")), ("version", json!("0.1.0"))];
    let entries: Vec<_> = own.into_iter().chain(extra.iter().cloned()).collect();
    let resource = build(&make_fields(&entries), absent).unwrap();
    let mut observation = Observation::default();
    observation.insert(resource.probes().remove(0), Ok(ProbeReading::Release(Box::new(state))));
    resource.assess(&observation, &AssessmentContext::default())
}

fn assess_state(state: ReleaseState) -> Assessment {
    assess_with(&[], false, state)
}

fn requested_action(judgement: &Assessment) -> Option<ReleaseAction> {
    judgement.diff.as_ref().and_then(ErasedDiff::downcast).map(ReleaseDiff::action)
}

fn changed_attributes(judgement: &Assessment) -> Vec<&str> {
    judgement.changes.iter().map(|change| change.attribute.as_str()).collect()
}

#[test]
fn values_of_a_mirror_are_merged_over_the_others() {
    let values = ("values", json!({ "a": { "on": true, "repository": "up" }, "list": [1] }));
    let mirror = ("mirror_values", json!({ "a": { "repository": "m" }, "b": { "repository": "m" } }));
    let resource = |entries: &[_]| build(&make_fields(entries), true).unwrap();
    let merged = json!({ "a": { "on": true, "repository": "m" }, "list": [1], "b": { "repository": "m" } });
    assert_eq!(resource(&[values.clone(), mirror]).desired_value()["values"], merged);
    let Probe::Release(asked) = resource(&[values, ("mirror_values", json!({}))]).probes().remove(0) else { panic!() };
    assert_eq!(asked.upstream, None);
}

#[test]
fn images_that_a_chart_does_not_contain_are_listed_with_their_sources() {
    let images =
        ("images", json!({ "m/node:v1": "quay.io/calico/node:v1", "quay.io/calico/cni:v1": "quay.io/calico/cni:v1" }));
    let seen = assess_with(&[images], false, make_release_state(ReleaseStatus::Deployed));
    assert_eq!(seen.images, ["a:1", "m/node:v1", "quay.io/calico/cni:v1"]);
    assert_eq!(seen.image_sources, [("m/node:v1".to_owned(), "quay.io/calico/node:v1".to_owned())].into());
    assert_eq!(seen.verdict, StepVerdict::Ok);
}

#[test]
fn matching_release_requires_no_action() {
    let ok = assess_state(make_release_state(ReleaseStatus::Deployed));
    assert_eq!((ok.verdict, requested_action(&ok)), (StepVerdict::Ok, None));
    assert_eq!(ok.reason.raw(), "tiny 0.1.0 is deployed, live objects match");
    let random = assess_state(ReleaseState { random: true, ..make_release_state(ReleaseStatus::Deployed) });
    assert_eq!(
        random.reason.raw(),
        "tiny 0.1.0 is deployed, values, version and live objects match (the chart renders differently each time)"
    );
    // The basis does not change with time alone.
    let mut older = make_release_state(ReleaseStatus::Deployed);
    older.release.as_mut().unwrap().age_s = 9999;
    assert_eq!(assess_state(older).basis, ok.basis);
}

fn doomed(objects: u64) -> Vec<DoomedDefinition> {
    vec![DoomedDefinition { name: "jobs.tiny".to_owned(), objects }]
}

#[test]
fn removal_that_deletes_objects_of_crds_is_blocked() {
    let state = |objects| ReleaseState {
        doomed: doomed(objects),
        kept: vec!["Policy p".to_owned()],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judged = assess_with(&[], true, state(2));
    assert_eq!(judged.verdict, StepVerdict::Blocked(BlockClass::Declaration));
    assert_eq!(
        judged.reason.raw(),
        "uninstalling deletes CustomResourceDefinitions with all their objects: `jobs.tiny` (2 objects)"
    );
    assert_eq!(judged.hint.as_deref(), Some("set `definitions: delete` to delete these objects too"));
    let allowed = assess_with(&[("definitions", json!("delete"))], true, state(2));
    assert_eq!(requested_action(&allowed), Some(ReleaseAction::Uninstall));
    assert_eq!(changed_attributes(&allowed), ["release", "CustomResourceDefinition jobs.tiny"]);
    assert_eq!(allowed.changes[1].from.as_ref().unwrap().raw(), "with 2 objects, which are lost");
    assert_eq!(
        allowed.reason.raw(),
        "release `ns/r` is deployed; uninstalling keeps the CustomResourceDefinitions `gadgets.tiny` and `Policy p`"
    );
    // Nothing is lost.
    assert_eq!(requested_action(&assess_with(&[], true, state(0))), Some(ReleaseAction::Uninstall));
}

#[test]
fn upgrade_that_deletes_objects_of_crds_is_blocked() {
    let changed =
        ObjectChange { object: "CustomResourceDefinition jobs.tiny".to_owned(), what: ObjectChangeKind::Removed };
    let state =
        ReleaseState { doomed: doomed(1), manifest: vec![changed], ..make_release_state(ReleaseStatus::Deployed) };
    let judged = assess_state(state.clone());
    assert_eq!(
        judged.reason.raw(),
        "the upgrade deletes CustomResourceDefinitions with all their objects: `jobs.tiny` (1 object)"
    );
    let allowed = assess_with(&[("definitions", json!("delete"))], false, state);
    assert_eq!(changed_attributes(&allowed), ["CustomResourceDefinition jobs.tiny", "hooks"]);
    assert_eq!(allowed.changes[0].from.as_ref().unwrap().raw(), "with 1 object, which is lost");
}

#[test]
fn crds_without_a_release_need_consent() {
    let added = ObjectChange { object: "CustomResourceDefinition jobs.tiny".to_owned(), what: ObjectChangeKind::Added };
    let owned = |owner: Option<&str>| ReleaseState {
        unowned: vec![UnownedDefinition { name: "jobs.tiny".to_owned(), owner: owner.map(Into::into) }],
        manifest: vec![added.clone()],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judged = assess_state(owned(None));
    assert_eq!(judged.verdict, StepVerdict::Blocked(BlockClass::Host));
    assert_eq!(judged.reason.raw(), "the chart declares CustomResourceDefinitions that no release owns: `jobs.tiny`");
    let adopting = assess_with(&[("adopt", json!(true))], false, owned(None));
    assert_eq!(requested_action(&adopting), Some(ReleaseAction::Upgrade { force: false }));
    assert_eq!(changed_attributes(&adopting), ["CustomResourceDefinition jobs.tiny", "hooks"]);
    assert_eq!(adopting.changes[0].to.as_ref().unwrap().raw(), "part of the release");
    let theirs = assess_with(&[("adopt", json!(true))], false, owned(Some("ns/other")));
    assert_eq!(theirs.reason.raw(), "CustomResourceDefinition `jobs.tiny` belongs to the release `ns/other`");
    let first = ReleaseState { release: None, manifest: Vec::new(), ..owned(None) };
    assert_eq!(assess_state(first.clone()).verdict, StepVerdict::Blocked(BlockClass::Host));
    let action = requested_action(&assess_with(&[("adopt", json!(true))], false, first));
    assert_eq!(action, Some(ReleaseAction::Upgrade { force: true }));
}

#[test]
fn first_install_lists_missing_crds_and_hooks() {
    let mut state = ReleaseState { release: None, ..make_release_state(ReleaseStatus::Deployed) };
    state.chart.as_mut().unwrap().crds[0].present = false;
    let judged = assess_state(state.clone());
    assert_eq!(changed_attributes(&judged), ["release", "CustomResourceDefinition gadgets.tiny", "hooks"]);
    assert_eq!(judged.changes[2].to.as_ref().unwrap().raw(), "Job h (pre-install)");
    assert_eq!(
        (requested_action(&judged), judged.disruption),
        (Some(ReleaseAction::Upgrade { force: false }), DisruptionClass::D0)
    );
    assert_eq!(changed_attributes(&assess_with(&[("hooks", json!(false))], false, state)).len(), 2);
}

#[test]
fn outdated_crd_is_renewed_by_an_upgrade() {
    let mut state = make_release_state(ReleaseStatus::Failed);
    state.chart.as_mut().unwrap().crds[0].outdated = true;
    let judged = assess_state(state);
    assert_eq!(changed_attributes(&judged), ["status", "CustomResourceDefinition gadgets.tiny", "hooks"]);
    assert_eq!(judged.changes[1].from.as_ref().unwrap().raw(), "of another version of the chart");
    assert_eq!(requested_action(&judged), Some(ReleaseAction::Upgrade { force: false }));
}

#[test]
fn changed_values_are_listed_by_field() {
    let state = ReleaseState {
        values: vec![make_field_change("replicas", "1", "2")],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judged = assess_state(state);
    assert_eq!(changed_attributes(&judged), ["values.replicas", "hooks"]);
    assert_eq!(
        (requested_action(&judged), judged.disruption),
        (Some(ReleaseAction::Upgrade { force: false }), DisruptionClass::D1)
    );
    assert_eq!(judged.reason.raw(), "the release differs");
}

#[test]
fn change_of_a_disruptive_field_is_d2_with_its_consequence() {
    let fields = [("disruptive_fields", json!({ "spec.driver": "the operator reloads the driver" }))];
    let manifest = |path: &str| ReleaseState {
        manifest: vec![ObjectChange {
            object: "ClusterPolicy p".to_owned(),
            what: ObjectChangeKind::Changed(vec![make_field_change(path, "1", "2")]),
        }],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let live = |path: &str| ReleaseState {
        live: vec![LiveObject {
            object: "ClusterPolicy p".to_owned(),
            missing: false,
            changed: vec![make_field_change(path, "1", "2")],
            added: Vec::new(),
        }],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judge = |state| {
        let judged = assess_with(&fields, false, state);
        (judged.disruption, judged.reason.raw().to_owned())
    };
    let consequence = "`spec.driver.version` changes: the operator reloads the driver";
    let upgrade = (DisruptionClass::D2, format!("the release differs; {consequence}"));
    assert_eq!(judge(manifest("spec.driver.version")), upgrade);
    let repair = (DisruptionClass::D2, format!("1 live object differs from the release; {consequence}"));
    assert_eq!(judge(live("spec.driver.version")), repair);
    assert_eq!(judge(manifest("spec.driverless")), (DisruptionClass::D1, "the release differs".to_owned()));
    let removed = assess_with(&fields, true, make_release_state(ReleaseStatus::Deployed));
    assert_eq!(removed.disruption, DisruptionClass::D2);
    assert!(removed.reason.raw().ends_with("; the operator reloads the driver"), "{}", removed.reason.raw());
}

#[test]
fn upgrade_beyond_the_major_version_limit_is_blocked() {
    let from = |version: &str, to: &str| {
        let mut state = make_release_state(ReleaseStatus::Deployed);
        state.release.as_mut().unwrap().version = version.to_owned();
        state.chart.as_mut().unwrap().version = to.to_owned();
        let judged = assess_with(&[("majors", json!(1))], false, state);
        (judged.verdict, judged.reason.raw().to_owned())
    };
    for (version, to) in [("v24.9.1", "v24.9.2"), ("v24.9.1", "v25.10.1"), ("v25.10.1", "v25.3.4")] {
        assert_eq!(from(version, to).0, StepVerdict::Change, "{version} {to}");
    }
    assert_eq!(
        from("v24.9.1", "v26.3.3"),
        (
            StepVerdict::Blocked(BlockClass::Rule),
            "from v24.9.1 to v26.3.3 is an upgrade by 2 major versions, the maximum is 1".to_owned()
        )
    );
    assert_eq!(
        from("v26.3.3", "v25.3.4"),
        (
            StepVerdict::Blocked(BlockClass::Rule),
            "from v26.3.3 to v25.3.4 is a downgrade by a major version".to_owned()
        )
    );
    assert_eq!(
        from("main-latest", "v25.3.4").1,
        "the major version distance from main-latest to v25.3.4 could not be evaluated: not a `MAJOR.…` version"
    );
    assert_eq!(from("main-latest", "main-latest").0, StepVerdict::Ok);
}

#[test]
fn live_object_drift_is_repaired_without_an_upgrade() {
    let owner = FieldOwner { name: "kubectl-edit".into(), time: Some("2026-11-21T08:00:00Z".to_owned()) };
    let changed = vec![FieldChange { by: Some(owner.clone()), ..make_field_change("spec.replicas", "3", "1") }];
    let added = vec![FieldChange { by: Some(owner), to: None, ..make_field_change("metadata.labels.x", "\"y\"", "") }];
    let live = LiveObject { object: "Deployment r".to_owned(), missing: false, changed, added };
    let judged = assess_state(ReleaseState { live: vec![live], ..make_release_state(ReleaseStatus::Deployed) });
    assert_eq!(requested_action(&judged), Some(ReleaseAction::Repair));
    assert_eq!(
        judged.reason.raw(),
        "1 live object differs from the release; 1 of the fields was added and will not be removed by an upgrade"
    );
    assert_eq!(changed_attributes(&judged), ["Deployment r spec.replicas", "Deployment r metadata.labels.x"]);
    let from = |at: usize| judged.changes[at].from.as_ref().unwrap().raw().to_owned();
    assert_eq!(from(0), "3 (set by kubectl-edit at 2026-11-21T08:00:00Z)");
    assert_eq!(from(1), "\"y\" (added by kubectl-edit at 2026-11-21T08:00:00Z)");
}

#[test]
fn field_changed_live_and_in_manifest_is_listed_once() {
    let change = |to: &str| FieldChange { secret: false, ..make_field_change("spec.replicas", "3", to) };
    let what = crate::object::ObjectChangeKind::Changed(vec![make_field_change("spec.replicas", "1", "2")]);
    let state = ReleaseState {
        manifest: vec![crate::object::ObjectChange { object: "Deployment r".to_owned(), what }],
        live: vec![LiveObject {
            object: "Deployment r".to_owned(),
            missing: false,
            changed: vec![change("1")],
            added: vec![],
        }],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judged = assess_state(state);
    assert_eq!(changed_attributes(&judged), ["Deployment r spec.replicas", "hooks"]);
    let (from, to) = (judged.changes[0].from.as_ref().unwrap(), judged.changes[0].to.as_ref().unwrap());
    assert_eq!((from.raw(), to.raw()), ("3", "2"));
}

#[test]
fn fields_that_change_alike_in_several_objects_are_one_change() {
    let label = |to: &str| make_field_change("metadata.labels.chart", "\"tiny-1\"", to);
    let object = |name: &str, fields: Vec<FieldChange>| ObjectChange {
        object: format!("Deployment {name}"),
        what: ObjectChangeKind::Changed(fields),
    };
    let hidden = FieldChange { secret: true, from: None, to: None, ..label("") };
    let two = "\"tiny-2\"";
    let manifest = vec![
        object("a", vec![label(two), make_field_change("spec.replicas", "1", "2")]),
        object("b", vec![label(two), make_field_change("spec.replicas", "1", "2")]),
        object("c", vec![label(two), make_field_change("spec.replicas", "1", "3")]),
        object("d", vec![label("\"tiny-3\"")]),
        object("e", vec![hidden.clone()]),
        object("f", vec![hidden.clone()]),
        object("g", vec![hidden]),
    ];
    let judged = assess_state(ReleaseState { manifest, ..make_release_state(ReleaseStatus::Deployed) });
    let expected = [
        "metadata.labels.chart of 3 objects",
        "Deployment a spec.replicas",
        "Deployment b spec.replicas",
        "Deployment c spec.replicas",
        "Deployment d metadata.labels.chart",
        "Deployment e metadata.labels.chart",
        "Deployment f metadata.labels.chart",
        "Deployment g metadata.labels.chart",
        "hooks",
    ];
    assert_eq!(changed_attributes(&judged), expected);
    assert_eq!(judged.changes[0].to.as_ref().unwrap().raw(), two);
}

#[test]
fn field_conflict_forces_the_upgrade() {
    let conflict =
        ReleaseFieldConflict { object: "Deployment r".into(), field: "spec.replicas".into(), by: "kubectl".into() };
    let state = ReleaseState {
        values: vec![make_field_change("replicas", "1", "2")],
        conflicts: vec![conflict],
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judged = assess_state(state);
    assert_eq!(requested_action(&judged), Some(ReleaseAction::Upgrade { force: true }));
    assert_eq!(judged.reason.raw(), "the release differs; the upgrade takes over 1 field of kubectl");
}

#[test]
fn a_failed_release_is_upgraded() {
    let judged = assess_state(make_release_state(ReleaseStatus::Failed));
    assert_eq!(
        (requested_action(&judged), changed_attributes(&judged)),
        (Some(ReleaseAction::Upgrade { force: false }), vec!["status", "hooks"])
    );
}

#[test]
fn pending_release_blocks_until_stale() {
    let pending = ReleaseStatus::PendingUpgrade;
    let young = assess_state(make_release_state(pending));
    assert_eq!(young.verdict, StepVerdict::Blocked(BlockClass::Busy));
    assert_eq!(
        young.reason.raw(),
        "another Helm operation is in progress: revision 3 has been pending-upgrade for 100 s"
    );
    let old = assess_with(&[("stale_after", json!(100))], false, make_release_state(pending));
    assert_eq!(
        (requested_action(&old), changed_attributes(&old)),
        (Some(ReleaseAction::Upgrade { force: false }), vec!["status", "hooks"])
    );
    assert_ne!(old.basis, young.basis);
}

#[test]
fn foreign_release_that_differs_is_blocked_without_adopt() {
    let theirs = |values: Vec<FieldChange>| {
        let mut state = ReleaseState { values, ..make_release_state(ReleaseStatus::Deployed) };
        state.release.as_mut().unwrap().ours = false;
        state
    };
    let ok = assess_state(theirs(vec![]));
    assert_eq!(ok.verdict, StepVerdict::Ok);
    assert!(ok.reason.raw().ends_with("; `ns/r` was not installed by forge"), "{}", ok.reason.raw());
    let other = || theirs(vec![make_field_change("replicas", "1", "2")]);
    let blocked = assess_state(other());
    assert_eq!(blocked.reason.raw(), "release `ns/r` (tiny 0.1.0) was not installed by forge");
    assert_eq!(blocked.hint.as_deref(), Some("set `adopt: true` to take it over"));
    assert_eq!(
        requested_action(&assess_with(&[("adopt", json!(true))], false, other())),
        Some(ReleaseAction::Upgrade { force: false })
    );
}

#[test]
fn same_chart_in_another_release_blocks_first_install() {
    let foreign = ForeignRelease {
        name: "theirs".into(),
        namespace: "other".into(),
        version: "0.0.9".into(),
        status: "deployed".into(),
    };
    let state = ReleaseState { release: None, foreign: vec![foreign], ..make_release_state(ReleaseStatus::Deployed) };
    let blocked = assess_state(state.clone());
    assert_eq!(blocked.reason.raw(), "chart `tiny` is already installed as release `other/theirs` (0.0.9, deployed)");
    assert!(requested_action(&assess_with(&[("beside", json!(true))], false, state)).is_some());
}

#[test]
fn unpinned_chart_image_is_blocked() {
    let mut state = make_release_state(ReleaseStatus::Deployed);
    state.chart.as_mut().unwrap().images.push("b:latest".to_owned());
    let blocked = assess_state(state);
    assert_eq!(blocked.verdict, StepVerdict::Blocked(BlockClass::Declaration));
    assert_eq!(blocked.reason.raw(), "an image without a tag or digest, or with tag `latest`: `b:latest`");
}

#[test]
fn removal_lists_the_crds_that_remain() {
    let judged = assess_with(&[], true, make_release_state(ReleaseStatus::Deployed));
    assert_eq!(requested_action(&judged), Some(ReleaseAction::Uninstall));
    assert_eq!(
        judged.reason.raw(),
        "release `ns/r` is deployed; uninstalling keeps the CustomResourceDefinitions `gadgets.tiny`"
    );
    let gone = assess_with(&[], true, ReleaseState { release: None, ..make_release_state(ReleaseStatus::Deployed) });
    assert_eq!((gone.verdict, gone.reason.raw()), (StepVerdict::Ok, "release `ns/r` does not exist"));
}

#[test]
fn missing_observation_is_assessed_as_unknown() {
    let resource = build(&make_fields(&[]), true).unwrap();
    let judged = resource.assess(&Observation::default(), &AssessmentContext::default());
    assert_eq!(judged.verdict, StepVerdict::Unknown);
}

#[test]
fn removal_lists_the_hooks_that_run() {
    let mut state = make_release_state(ReleaseStatus::Deployed);
    let hook = ChartHook { object: "Job prune".to_owned(), events: vec!["post-delete".to_owned()] };
    state.hooks.push(hook);
    let judged = assess_with(&[], true, state.clone());
    assert_eq!(changed_attributes(&judged), ["release", "hooks"]);
    assert_eq!(judged.changes[1].to.as_ref().unwrap().raw(), "Job prune (post-delete)");
    assert_eq!(
        judged.reason.raw(),
        "release `ns/r` is deployed; uninstalling keeps the CustomResourceDefinitions `gadgets.tiny`, unless a hook \
         deletes them"
    );
    let without = assess_with(&[("hooks", json!(false))], true, state);
    assert_eq!(changed_attributes(&without), ["release"]);
}

#[test]
fn removal_does_not_need_the_chart() {
    let state = ReleaseState {
        chart: None,
        unrendered: Some("chart requires kubeVersion: < 1.34".into()),
        ..make_release_state(ReleaseStatus::Deployed)
    };
    let judged = assess_with(&[], true, state);
    assert_eq!(requested_action(&judged), Some(ReleaseAction::Uninstall));
    assert_eq!(
        judged.reason.raw(),
        "release `ns/r` is deployed; the CustomResourceDefinitions of its chart are unknown: chart requires kubeVersion: \
         < 1.34"
    );
}
