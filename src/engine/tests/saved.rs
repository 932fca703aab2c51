//! A plan that is saved and applied later: on which hosts it runs, on which it does not, and that it runs only once.

use super::super::{
    CancelSignal, Recording, ReplayOptions, RunOptions, SavedPlan, apply, bind_saved_plan, observe_for_change,
    observe_hosts, plan,
};
use super::simulated_project::{SimulatedProject, SimulatedRun};
use crate::model::{HostName, HostOutcome};
use crate::plan::{ClosedHours, PlanPolicy};
use std::sync::Arc;

const APPLY: &str = "apply:\n  - { recipe: base, on: all }\n";
const STEPS: &str = "steps:
  - name: one
    file: { path: '@root/one', content: \"one\\n\", @own }
  - name: two
    command: { check: 'test -e @root/two', apply: 'touch @root/two' }
";

fn saved_project(hosts: usize) -> SimulatedProject {
    let mut stage = SimulatedProject::new(hosts, APPLY, &[("base", STEPS)]);
    stage.policy = PlanPolicy { bases: true, ..PlanPolicy::default() };
    stage
}

fn list_hosts(stage: &SimulatedProject) -> Vec<HostName> {
    stage.hosts.iter().map(HostName::new).collect()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Saves a plan like `plan -o` does, through its text.
fn save_plan(stage: &SimulatedProject) -> SavedPlan {
    let project = stage.load_project();
    let options =
        RunOptions { replay: ReplayOptions { keep: true, ..ReplayOptions::default() }, ..stage.run_options() };
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let saved = block_on(async {
        let observed = observe_hosts(&project, &list_hosts(stage), &options, &events).await;
        let made = plan(&project, &observed, &options);
        let recording = Recording::from_observed(&project, &observed).without_commands();
        let replay = ReplayOptions { observed: Some(Arc::new(recording.clone())), ..ReplayOptions::default() };
        let options = RunOptions { replay, ..options };
        let replayed = observe_hosts(&project, &list_hosts(stage), &options, &events).await;
        let again = plan(&project, &replayed, &options);
        SavedPlan::new(&project, made, &again, &observed, recording, None, &options)
    });
    let text = serde_json::to_string(&saved).unwrap();
    let read = SavedPlan::parse(&text).unwrap();
    assert!(read.is_unaltered() && read == saved, "it is the same once it is read");
    assert_eq!(read.withheld, Vec::<HostName>::new(), "its answers give the same plan");
    read
}

fn apply_saved(stage: &SimulatedProject, saved: &SavedPlan, replay: bool) -> SimulatedRun {
    let (project, options) = (stage.load_project(), stage.run_options());
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    block_on(async {
        let mut observed = observe_for_change(&project, &list_hosts(stage), &options, &events).await;
        let plan = bind_saved_plan(&project, saved, &mut observed, &options, replay);
        let report = apply(&project, &plan, observed, &options, &events, &CancelSignal::default()).await;
        SimulatedRun { plan, report, events: Vec::new() }
    })
}

fn write_host_file(stage: &SimulatedProject, host: &str, file: &str, text: &str) {
    std::fs::write(stage.host_root(host).join(file), text).unwrap();
}

/// The plan is the same one, whenever it is made again.
#[test]
fn plan_saved_outside_of_the_hours_names_the_time_and_applies_later() {
    fn at(hour: i8, minute: i8) -> jiff::Timestamp {
        let day = jiff::civil::date(2026, 11, 27).at(hour, minute, 0, 0);
        day.to_zoned(jiff::tz::TimeZone::system()).unwrap().timestamp()
    }
    let step =
        "steps:\n  - name: one\n    disruption: D2\n    file: { path: '@root/one', content: \"one\\n\", @own }\n";
    let apply = format!("rollout: {{ hours: \"12:00-13:00\" }}\n{APPLY}");
    let mut stage = SimulatedProject::new(1, &apply, &[("base", step)]);
    stage.policy = PlanPolicy { bases: true, ..PlanPolicy::default() };
    stage.clock = || at(11, 30);
    let saved = save_plan(&stage);
    let closed = |at: &str| Some(ClosedHours { at: at.to_owned(), opens: "12:00".to_owned() });
    assert_eq!(saved.plan.rollout.closed, closed("11:30"));
    let plan_again = |stage: &SimulatedProject| {
        let (project, options) = (stage.load_project(), stage.run_options());
        let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
        block_on(async {
            let mut observed = observe_hosts(&project, &list_hosts(stage), &options, &events).await;
            let made = plan(&project, &observed, &options);
            (made, bind_saved_plan(&project, &saved, &mut observed, &options, false))
        })
    };
    stage.clock = || at(13, 0);
    let (made, bound) = plan_again(&stage);
    assert_eq!((&made.rollout.closed, made.id.as_str()), (&closed("13:00"), saved.plan.id.as_str()));
    assert_eq!(bound.rollout.closed, closed("13:00"), "the review of an apply shows its own time");
    stage.clock = || at(12, 59);
    let (made, bound) = plan_again(&stage);
    assert_eq!((saved.find_difference(&made), made.rollout.closed, bound.rollout.closed), (None, None, None));
}

#[test]
fn saved_plan_skips_done_steps_and_whole_stale_hosts() {
    let stage = saved_project(3);
    let saved = save_plan(&stage);
    write_host_file(&stage, "n1", "one", "mine\n");
    write_host_file(&stage, "n2", "two", "");
    let ran = apply_saved(&stage, &saved, false);
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Stale);
    assert!(
        ran.describe_step("n1", "base/one").starts_with("stale: `type` was \"absent\" and is \"file\""),
        "{}",
        ran.describe_step("n1", "base/one")
    );
    assert_eq!(ran.describe_step("n1", "base/two"), "skipped: the plan is stale on this host");
    assert_eq!(
        (stage.read_file("n1", "one").as_str(), stage.has_file("n1", "two")),
        ("mine\n", false),
        "nothing ran there"
    );
    assert_eq!(
        (ran.describe_step("n2", "base/one").as_str(), ran.describe_step("n2", "base/two").as_str()),
        ("changed", "ok")
    );
    assert_eq!(ran.host_outcome("n3"), HostOutcome::Changed);
    assert_eq!(ran.exit_code(), 6);
}

/// A step behind one that may change anything, and a file in a new directory: the plan shows both changes. If the earlier
/// step is done by hand, and the later object is changed too, the change would not be the reviewed one.
#[test]
fn saved_plan_is_stale_if_an_object_changed_and_the_step_before_it_is_done() {
    const STEPS: &str = "steps:
  - name: any
    command: { check: 'test -e @root/any', apply: 'touch @root/any' }
  - name: shown
    file: { path: '@root/shown', content: \"new\\n\", @own }
  - name: folder
    directory: { path: '@root/folder', mode: '0755', @own }
  - name: inner
    file: { path: '@root/folder/inner', content: \"new\\n\", backup: false, @own }
";
    let mut stage = SimulatedProject::new(4, APPLY, &[("base", STEPS)]);
    stage.policy = PlanPolicy { bases: true, ..PlanPolicy::default() };
    for host in ["n1", "n2", "n3", "n4"] {
        write_host_file(&stage, host, "shown", "old\n");
    }
    let saved = save_plan(&stage);
    write_host_file(&stage, "n1", "any", "");
    write_host_file(&stage, "n1", "shown", "hotfix\n");
    write_host_file(&stage, "n2", "any", "");
    let folder = stage.host_root("n3").join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write_host_file(&stage, "n3", "folder/inner", "precious\n");
    let ran = apply_saved(&stage, &saved, false);
    assert!(ran.describe_step("n1", "base/shown").starts_with("stale: "), "{}", ran.describe_step("n1", "base/shown"));
    assert_eq!(stage.read_file("n1", "shown"), "hotfix\n");
    assert_eq!(ran.describe_step("n2", "base/shown"), "changed", "the earlier step alone is done");
    let inner = ran.describe_step("n3", "base/inner");
    assert!(inner.starts_with("stale: `type` was \"absent\" and is \"file\", `content` was unset and is "), "{inner}");
    assert_eq!(stage.read_file("n3", "folder/inner"), "precious\n");
    assert_eq!((ran.host_outcome("n4"), ran.exit_code()), (HostOutcome::Changed, 6));
}

#[test]
fn saved_plan_runs_once_per_host_without_replay() {
    let stage = saved_project(2);
    let saved = save_plan(&stage);
    assert_eq!(apply_saved(&stage, &saved, false).exit_code(), 0);
    std::fs::remove_file(stage.host_root("n1").join("two")).unwrap();
    let again = apply_saved(&stage, &saved, false);
    assert_eq!(again.exit_code(), 6);
    assert_eq!(
        again.host_message("n1"),
        "this plan has already run here: run 20261121T093015-4f2a by test on test\n\
         make a new plan with `forge plan -o`, or use `--replay` to apply this one again"
    );
    assert!(!stage.has_file("n1", "two"));
    let replayed = apply_saved(&stage, &saved, true);
    assert_eq!(
        (replayed.exit_code(), stage.has_file("n1", "two")),
        (0, true),
        "it is as it was when the plan was made"
    );

    // Equal to the first plan except for its time: another plan.
    let next = save_plan(&stage);
    assert_ne!(next.digest, saved.digest);
    assert_eq!(apply_saved(&stage, &next, false).exit_code(), 0, "nothing to do, and nothing is refused");
}

#[test]
fn saved_plan_step_that_no_longer_matches_is_stale() {
    let stage = saved_project(1);
    assert_eq!(stage.run_once().exit_code(), 0);
    let saved = save_plan(&stage);
    write_host_file(&stage, "n1", "one", "mine\n");
    let ran = apply_saved(&stage, &saved, false);
    assert!(
        ran.describe_step("n1", "base/one").starts_with("stale: was `ok` in the plan; now "),
        "{}",
        ran.describe_step("n1", "base/one")
    );
    assert_eq!((ran.exit_code(), stage.read_file("n1", "one").as_str()), (6, "mine\n"));
}

/// A step that matched in the plan, and that a change of another step touches now, is not reported as matching.
#[test]
fn stale_host_claims_no_match_that_was_not_observed_again() {
    let steps = "steps:
  - name: one
    file: { path: '@root/one', content: \"one\\n\", @own }
  - name: two
    command: { check: 'grep -q one @root/one', apply: 'false' }
";
    let mut stage = SimulatedProject::new(1, APPLY, &[("base", steps)]);
    stage.policy = PlanPolicy { bases: true, ..PlanPolicy::default() };
    assert_eq!(stage.run_once().exit_code(), 0);
    let saved = save_plan(&stage);
    write_host_file(&stage, "n1", "one", "other\n");
    let ran = apply_saved(&stage, &saved, false);
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Stale);
    assert!(ran.describe_step("n1", "base/one").starts_with("stale: "), "{}", ran.describe_step("n1", "base/one"));
    let two = ran.describe_step("n1", "base/two");
    assert!(two.starts_with("skipped: the plan is stale on this host; observed now: "), "{two}");
}

/// The same on a host where the plan has already run.
#[test]
fn plan_that_has_run_claims_no_match_that_was_not_observed_again() {
    let stage = saved_project(1);
    write_host_file(&stage, "n1", "two", "");
    let saved = save_plan(&stage);
    assert_eq!(apply_saved(&stage, &saved, false).exit_code(), 0);
    std::fs::remove_file(stage.host_root("n1").join("two")).unwrap();
    let ran = apply_saved(&stage, &saved, false);
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Stale);
    let two = ran.describe_step("n1", "base/two");
    assert!(two.starts_with("skipped: the plan is stale on this host; observed now: "), "{two}");
}

/// A reboot since the plan made the step effective, and the left object is gone: neither is reported as the plan saw it.
#[test]
fn stale_host_is_reported_as_it_is_now() {
    let steps = "steps:
  - name: one
    file: { path: '@root/one', content: \"one\\n\", @own }
  - name: option
    file: { path: '@root/option', content: \"o\\n\", @own }
    effective: { by: [reboot], check: 'test -e @root/in-force' }
";
    let left = "  - name: left\n    file: { path: '@root/left', content: \"l\\n\", @own }\n";
    let mut stage = SimulatedProject::new(1, APPLY, &[("base", &format!("{steps}{left}"))]);
    stage.policy = PlanPolicy { bases: true, ..PlanPolicy::default() };
    stage.run_once();
    stage.write_recipe("base", &steps.replace("one\\n", "two\\n"));
    let saved = save_plan(&stage);
    write_host_file(&stage, "n1", "one", "other\n");
    write_host_file(&stage, "n1", "in-force", "");
    std::fs::remove_file(stage.host_root("n1").join("left")).unwrap();
    let ran = apply_saved(&stage, &saved, false);
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Stale);
    assert_eq!(ran.describe_step("n1", "base/option"), "ok");
    assert!(ran.report.hosts[0].undeclared.is_empty(), "{:?}", ran.report.hosts[0].undeclared);
    assert_eq!(saved.plan.hosts[0].undeclared.len(), 1);
}

/// Collects all scalar values of a document by their pointers.
fn collect_leaves(value: &serde_json::Value, at: &str, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(key, item)| collect_leaves(item, &format!("{at}/{key}"), into));
        }
        serde_json::Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, item)| collect_leaves(item, &format!("{at}/{}", key.replace('/', "~1")), into));
        }
        _ => into.push(at.to_owned()),
    }
}

fn edit_document(document: &serde_json::Value, at: &str) -> serde_json::Value {
    use serde_json::{Value, json};
    let mut document = document.clone();
    let leaf = document.pointer_mut(at).unwrap();
    *leaf = match &*leaf {
        Value::String(text) => json!(format!("{text}x")),
        Value::Number(number) => json!(number.as_u64().unwrap_or(0) + 1),
        Value::Bool(flag) => json!(!flag),
        Value::Null => json!("x"),
        Value::Array(_) => json!(["x"]),
        Value::Object(_) => json!({ "x": "x" }),
    };
    document
}

#[test]
fn no_field_of_a_saved_plan_can_be_edited() {
    let stage = saved_project(2);
    let saved = save_plan(&stage);
    let (project, made) = (stage.load_project(), saved.plan.clone());
    let document = serde_json::to_value(&saved).unwrap();
    let mut all = Vec::new();
    collect_leaves(&document, "", &mut all);
    assert!(all.len() > 100 && ["/counts/hosts", "/plan/cluster"].iter().all(|at| all.iter().any(|one| one == at)));
    let mut accepted = Vec::new();
    for at in &all {
        let Ok(read) = SavedPlan::parse(&edit_document(&document, at).to_string()) else { continue };
        assert!(!read.is_unaltered(), "{at}: the digest does not cover it");
        // An alteration with a recomputed digest is detected by planning again. Answers are inserted into that plan
        // itself.
        let read = read.with_digest();
        let refused = read.find_difference(&made).is_some() || !read.list_changed_inputs(&project).is_empty();
        if !refused && !at.starts_with("/observed/") {
            accepted.push(at.as_str());
        }
    }
    // The author and time are informative only; the digest is recomputed.
    assert_eq!(accepted, ["/digest", "/made/time", "/made/user", "/made/controller"]);
}

#[test]
fn a_plan_of_another_cluster_or_inventory_is_refused() {
    let stage = saved_project(1);
    let mut saved = save_plan(&stage);
    let made = saved.plan.clone();
    saved.plan.cluster = "prod".into();
    let said = saved.clone().with_digest().find_difference(&made);
    assert_eq!(said, Some(format!("its cluster is `prod`, not `{}`", made.cluster)));
    saved.plan.cluster.clone_from(&made.cluster);
    saved.plan.inventory = "prod.yaml".into();
    let said = saved.clone().with_digest().find_difference(&made);
    assert_eq!(said, Some(format!("its inventory is `prod.yaml`, not `{}`", made.inventory)));
    saved.plan.inventory = format!("/elsewhere/{}", camino::Utf8Path::new(&made.inventory).file_name().unwrap());
    assert_eq!(saved.with_digest().find_difference(&made), None, "the same file may lie in another folder");
}

#[test]
fn altered_plan_with_a_recomputed_digest_is_detected() {
    let stage = saved_project(1);
    let mut saved = save_plan(&stage);
    let project = stage.load_project();
    let made = saved.plan.clone();
    assert_eq!(saved.find_difference(&made), None);
    saved.plan.hosts[0].steps[0].reason = "all is well".into();
    assert!(!saved.is_unaltered());
    let saved = saved.with_digest();
    assert!(saved.is_unaltered());
    assert_eq!(saved.find_difference(&made).as_deref(), Some("step `base/one` of `n1` differs"));
    assert_eq!(saved.list_changed_inputs(&project), Vec::<String>::new());
    stage.write_input_file("recipes/more.yaml", "recipe: more\nsteps: []\n");
    assert_eq!(saved.list_changed_inputs(&stage.load_project()), ["`recipes/more.yaml` was not read before"]);
}
