//! Evaluates recorded states of releases.

use super::*;
use crate::kube::ClusterCall;
use crate::model::{BlockClass, DisruptionClass, StepVerdict};
use crate::probe::{
    ChartCrd, ChartHook, ChartInfo, FieldChange, FieldOwner, ForeignRelease, LiveObject, ProbeReading,
    ReleaseFieldConflict, ReleaseInfo, ReleaseState, ReleaseStatus,
};

fn fields(entries: &[(&'static str, Value)]) -> FieldValues {
    let own = [("name", json!("r")), ("namespace", json!("ns"))];
    FieldValues(own.into_iter().chain(entries.iter().cloned()).collect())
}

fn refused(entries: &[(&'static str, Value)]) -> String {
    build(&fields(entries), false).unwrap_err().message
}

#[test]
fn where_a_chart_comes_from_is_said_once_and_whole() {
    assert_eq!(refused(&[]), "a release needs `chart`, `path` or `built_in`");
    assert_eq!(refused(&[("chart", json!("tiny"))]), "`chart` needs `repository`");
    assert_eq!(refused(&[("repository", json!("https://a"))]), "`repository` needs `chart`");
    assert_eq!(refused(&[("path", json!("/c")), ("chart", json!("a"))]), "`path` excludes `chart` and `repository`");
    assert_eq!(refused(&[("path", json!("/c"))]), "a chart needs its exact `version`");
    let both =
        |name: &str, url: &str| refused(&[("chart", json!(name)), ("repository", json!(url)), ("version", json!("1"))]);
    assert_eq!(both("tiny", "ftp://a"), "`repository` is not an `https://…` URL");
    assert_eq!(both("--post-renderer", "https://a"), "`--post-renderer` is not a valid chart name");
    let digest = [("path", json!("/c")), ("version", json!("1")), ("sha256", json!("12"))];
    assert_eq!(refused(&digest), "`sha256` is not 64 hexadecimal digits");
    assert!(build(&fields(&[("chart", json!("oci://a/b")), ("version", json!("1"))]), false).is_ok());
    assert!(build(&fields(&[]), true).is_ok());
}

#[test]
fn a_chart_that_ships_is_named_alone() {
    let shipped = ("built_in", json!("rdma-shared-device-plugin"));
    let resource = build(&fields(std::slice::from_ref(&shipped)), false).unwrap();
    assert_eq!(resource.desired()["version"], "1.0.0");
    let excluded = "`built_in` excludes `chart`, `repository`, `path`, `version` and `sha256`";
    assert_eq!(refused(&[shipped.clone(), ("path", json!("/c"))]), excluded);
    assert_eq!(refused(&[shipped, ("version", json!("1.0.0"))]), excluded);
    let error = build(&fields(&[("built_in", json!("rdma-shared-device-plugins"))]), false).unwrap_err();
    assert_eq!(error.message, "built-in chart `rdma-shared-device-plugins` does not exist");
    assert_eq!(error.hint.as_deref(), Some("did you mean `rdma-shared-device-plugin`?"));
}

#[test]
fn a_name_is_one_that_the_api_takes() {
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

fn info(status: ReleaseStatus) -> ReleaseInfo {
    let (chart, version) = ("tiny".to_owned(), "0.1.0".to_owned());
    ReleaseInfo { revision: 3, status, chart, version, age_s: 100, earlier: true, ours: true, ..ReleaseInfo::default() }
}

fn seen(status: ReleaseStatus) -> ReleaseState {
    let chart = ChartInfo {
        name: "tiny".to_owned(),
        version: "0.1.0".to_owned(),
        crds: vec![ChartCrd { name: "gadgets.tiny".to_owned(), present: true }],
        hooks: vec![ChartHook {
            object: "Job h".to_owned(),
            events: vec!["pre-install".to_owned(), "pre-upgrade".to_owned()],
        }],
        images: vec!["a:1".to_owned()],
    };
    ReleaseState { release: Some(info(status)), chart: Some(chart), ..ReleaseState::default() }
}

fn field(path: &str, from: &str, to: &str) -> FieldChange {
    FieldChange { path: path.to_owned(), from: Some(from.into()), to: Some(to.into()), secret: false, by: None }
}

fn judge_with(extra: &[(&'static str, Value)], absent: bool, state: ReleaseState) -> Assessment {
    let own = [("path", json!("/c")), ("version", json!("0.1.0"))];
    let entries: Vec<_> = own.into_iter().chain(extra.iter().cloned()).collect();
    let resource = build(&fields(&entries), absent).unwrap();
    let mut observation = Observation::default();
    observation.insert(resource.probes().remove(0), Ok(ProbeReading::Release(Box::new(state))));
    resource.judge(&observation, &AssessmentContext::default())
}

fn judge(state: ReleaseState) -> Assessment {
    judge_with(&[], false, state)
}

fn deed(judgement: &Assessment) -> Option<ReleaseAction> {
    match judgement.calls.as_slice() {
        [ClusterCall::Release(call)] => Some(call.deed),
        _ => None,
    }
}

fn attributes(judgement: &Assessment) -> Vec<&str> {
    judgement.changes.iter().map(|change| change.attribute.as_str()).collect()
}

#[test]
fn what_is_as_declared_runs_nothing() {
    let ok = judge(seen(ReleaseStatus::Deployed));
    assert_eq!((ok.verdict, deed(&ok)), (StepVerdict::Ok, None));
    assert_eq!(ok.reason.raw(), "tiny 0.1.0 is deployed, live objects match");
    let random = judge(ReleaseState { random: true, ..seen(ReleaseStatus::Deployed) });
    assert_eq!(
        random.reason.raw(),
        "tiny 0.1.0 is deployed, values, version and live objects match (the chart renders differently each time)"
    );
    // The basis does not change with time alone.
    let mut older = seen(ReleaseStatus::Deployed);
    older.release.as_mut().unwrap().age_s = 9999;
    assert_eq!(judge(older).basis, ok.basis);
}

#[test]
fn a_first_install_names_definitions_and_hooks() {
    let mut state = ReleaseState { release: None, ..seen(ReleaseStatus::Deployed) };
    state.chart.as_mut().unwrap().crds[0].present = false;
    let judged = judge(state.clone());
    assert_eq!(attributes(&judged), ["release", "CustomResourceDefinition gadgets.tiny", "hooks"]);
    assert_eq!(judged.changes[2].to.as_ref().unwrap().raw(), "Job h (pre-install)");
    assert_eq!(
        (deed(&judged), judged.disruption),
        (Some(ReleaseAction::Upgrade { force: false }), DisruptionClass::D0)
    );
    assert_eq!(attributes(&judge_with(&[("hooks", json!(false))], false, state)).len(), 2);
}

#[test]
fn values_and_manifest_are_told_field_by_field() {
    let state = ReleaseState { values: vec![field("replicas", "1", "2")], ..seen(ReleaseStatus::Deployed) };
    let judged = judge(state);
    assert_eq!(attributes(&judged), ["values.replicas", "hooks"]);
    assert_eq!(
        (deed(&judged), judged.disruption),
        (Some(ReleaseAction::Upgrade { force: false }), DisruptionClass::D1)
    );
    assert_eq!(judged.reason.raw(), "the release differs");
}

#[test]
fn an_upgrade_goes_up_by_as_many_majors_as_it_may() {
    let from = |version: &str, to: &str| {
        let mut state = seen(ReleaseStatus::Deployed);
        state.release.as_mut().unwrap().version = version.to_owned();
        state.chart.as_mut().unwrap().version = to.to_owned();
        let judged = judge_with(&[("majors", json!(1))], false, state);
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
fn live_objects_alone_are_mended_without_an_upgrade() {
    let owner = FieldOwner { name: "kubectl-edit".into(), time: Some("2026-11-21T08:00:00Z".to_owned()) };
    let changed = vec![FieldChange { by: Some(owner.clone()), ..field("spec.replicas", "3", "1") }];
    let added = vec![FieldChange { by: Some(owner), to: None, ..field("metadata.labels.x", "\"y\"", "") }];
    let live = LiveObject { object: "Deployment r".to_owned(), missing: false, changed, added };
    let judged = judge(ReleaseState { live: vec![live], ..seen(ReleaseStatus::Deployed) });
    assert_eq!(deed(&judged), Some(ReleaseAction::Mend));
    assert_eq!(
        judged.reason.raw(),
        "1 live object differs from the release; 1 of the fields was added and will not be removed by an upgrade"
    );
    assert_eq!(attributes(&judged), ["Deployment r spec.replicas", "Deployment r metadata.labels.x"]);
    let from = |at: usize| judged.changes[at].from.as_ref().unwrap().raw().to_owned();
    assert_eq!(from(0), "3 (set by kubectl-edit at 2026-11-21T08:00:00Z)");
    assert_eq!(from(1), "\"y\" (added by kubectl-edit at 2026-11-21T08:00:00Z)");
}

#[test]
fn a_field_that_moved_and_changes_is_told_once() {
    let change = |to: &str| FieldChange { secret: false, ..field("spec.replicas", "3", to) };
    let what = crate::probe::ObjectChangeKind::Changed(vec![field("spec.replicas", "1", "2")]);
    let state = ReleaseState {
        manifest: vec![crate::probe::ObjectChange { object: "Deployment r".to_owned(), what }],
        live: vec![LiveObject {
            object: "Deployment r".to_owned(),
            missing: false,
            changed: vec![change("1")],
            added: vec![],
        }],
        ..seen(ReleaseStatus::Deployed)
    };
    let judged = judge(state);
    assert_eq!(attributes(&judged), ["Deployment r spec.replicas", "hooks"]);
    let (from, to) = (judged.changes[0].from.as_ref().unwrap(), judged.changes[0].to.as_ref().unwrap());
    assert_eq!((from.raw(), to.raw()), ("3", "2"));
}

#[test]
fn fields_of_others_are_taken_by_need() {
    let conflict =
        ReleaseFieldConflict { object: "Deployment r".into(), field: "spec.replicas".into(), by: "kubectl".into() };
    let state = ReleaseState {
        values: vec![field("replicas", "1", "2")],
        conflicts: vec![conflict],
        ..seen(ReleaseStatus::Deployed)
    };
    let judged = judge(state);
    assert_eq!(deed(&judged), Some(ReleaseAction::Upgrade { force: true }));
    assert_eq!(judged.reason.raw(), "the release differs; the upgrade takes over 1 field of kubectl");
}

#[test]
fn a_failed_release_is_upgraded() {
    let judged = judge(seen(ReleaseStatus::Failed));
    assert_eq!(
        (deed(&judged), attributes(&judged)),
        (Some(ReleaseAction::Upgrade { force: false }), vec!["status", "hooks"])
    );
}

#[test]
fn a_pending_release_blocks_until_it_is_old() {
    let pending = ReleaseStatus::PendingUpgrade;
    let young = judge(seen(pending));
    assert_eq!(young.verdict, StepVerdict::Blocked(BlockClass::Busy));
    assert_eq!(
        young.reason.raw(),
        "another Helm operation is in progress: revision 3 has been pending-upgrade for 100 s"
    );
    let old = judge_with(&[("stale_after", json!(100))], false, seen(pending));
    assert_eq!(
        (deed(&old), attributes(&old)),
        (Some(ReleaseAction::Upgrade { force: false }), vec!["status", "hooks"])
    );
    assert_ne!(old.basis, young.basis);
}

#[test]
fn what_somebody_else_installed_is_left_alone_but_where_it_is_as_declared() {
    let theirs = |values: Vec<FieldChange>| {
        let mut state = ReleaseState { values, ..seen(ReleaseStatus::Deployed) };
        state.release.as_mut().unwrap().ours = false;
        state
    };
    let ok = judge(theirs(vec![]));
    assert_eq!(ok.verdict, StepVerdict::Ok);
    assert!(ok.reason.raw().ends_with("; `ns/r` was not installed by forge"), "{}", ok.reason.raw());
    let other = || theirs(vec![field("replicas", "1", "2")]);
    let blocked = judge(other());
    assert_eq!(blocked.reason.raw(), "release `ns/r` (tiny 0.1.0) was not installed by forge");
    assert_eq!(blocked.hint.as_deref(), Some("set `adopt: true` to take it over"));
    assert_eq!(
        deed(&judge_with(&[("adopt", json!(true))], false, other())),
        Some(ReleaseAction::Upgrade { force: false })
    );
}

#[test]
fn the_same_chart_elsewhere_blocks_a_first_install() {
    let foreign = ForeignRelease {
        name: "theirs".into(),
        namespace: "other".into(),
        version: "0.0.9".into(),
        status: "deployed".into(),
    };
    let state = ReleaseState { release: None, foreign: vec![foreign], ..seen(ReleaseStatus::Deployed) };
    let blocked = judge(state.clone());
    assert_eq!(blocked.reason.raw(), "chart `tiny` is already installed as release `other/theirs` (0.0.9, deployed)");
    assert!(deed(&judge_with(&[("beside", json!(true))], false, state)).is_some());
}

#[test]
fn images_that_may_be_another_tomorrow_are_refused() {
    let mut state = seen(ReleaseStatus::Deployed);
    state.chart.as_mut().unwrap().images.push("b:latest".to_owned());
    let blocked = judge(state);
    assert_eq!(blocked.verdict, StepVerdict::Blocked(BlockClass::Declaration));
    assert_eq!(blocked.reason.raw(), "an image without a tag or digest, or with tag `latest`: `b:latest`");
}

#[test]
fn a_removal_names_what_stays() {
    let judged = judge_with(&[], true, seen(ReleaseStatus::Deployed));
    assert_eq!(deed(&judged), Some(ReleaseAction::Uninstall));
    assert_eq!(
        judged.reason.raw(),
        "release `ns/r` is deployed; uninstalling keeps the CustomResourceDefinitions `gadgets.tiny`"
    );
    let gone = judge_with(&[], true, ReleaseState { release: None, ..seen(ReleaseStatus::Deployed) });
    assert_eq!((gone.verdict, gone.reason.raw()), (StepVerdict::Ok, "release `ns/r` does not exist"));
}

#[test]
fn what_could_not_be_asked_is_unknown() {
    let resource = build(&fields(&[]), true).unwrap();
    let judged = resource.judge(&Observation::default(), &AssessmentContext::default());
    assert_eq!(judged.verdict, StepVerdict::Unknown);
}
