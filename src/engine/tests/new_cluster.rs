//! A cluster that the run itself creates: the plan before it exists, and the result if it is not created.

use super::super::{DoctorSeverity, Event, NodeDrainEvent, Recording, VerifyResult, doctor, observe_hosts, plan};
use super::nodes::fake_cluster::FakeClusterApi;
use super::simulated_project::{SimulatedProject, SimulatedRun};
use super::window::DRIVER_ALONE;
use crate::model::{ExitCode, HostName, HostOutcome, StepVerdict};
use crate::object::ClusterAbsence;
use crate::plan::ObservedNode;

/// Creates the cluster: its kubeconfig appears.
const MAKER: &str = "needs: [driver]
steps:
  - name: begin
    provides: { cluster: true }
    command: { creates: '@root/made', apply: 'test ! -e @root/unlucky && cp @root/admin.conf @root/../kubeconfig && touch @root/made' }
";

/// A rule about the cluster's release, a step and a verification, all of which need the API.
const INSIDE: &str = "rules:
  - { scope: cluster, require: facts.kubernetes_version.minor >= 22, else: Kubernetes 1.22 or later is needed }
steps:
  - { name: space, namespace: { name: apps } }
verify:
  - { name: nodes, scope: cluster, expect: facts.nodes | length > 0 }
";

/// Hosts that become nodes of a cluster that `n1` creates, and that change out of service before.
fn project(hosts: usize) -> (SimulatedProject, FakeClusterApi) {
    let apply = "rollout: { max_unavailable: 2, drain: { kubernetes: { group: all, timeout: 5s } } }
kubernetes: { kubeconfig: kubeconfig, context: test, retry: 1s }
apply:
  - { recipe: driver, on: all }
  - { recipe: maker, on: n1 }
  - { recipe: inside, on: all }
";
    let recipes = [("driver", DRIVER_ALONE), ("maker", MAKER), ("inside", INSIDE)];
    let mut stage = SimulatedProject::new(hosts, apply, &recipes);
    let (api, kubeconfig) = FakeClusterApi::start(&stage.hosts);
    stage.create_host_file("n1", "admin.conf");
    std::fs::write(stage.host_root("n1").join("admin.conf"), kubeconfig).unwrap();
    stage.hosts.push("kubernetes".to_owned());
    (stage, api)
}

fn list_node_events(ran: &SimulatedRun) -> Vec<NodeDrainEvent> {
    let news = |event: &Event| match event {
        Event::Node { news, .. } => Some(news.clone()),
        _ => None,
    };
    ran.events.iter().filter_map(news).collect()
}

#[test]
fn steps_of_a_cluster_that_does_not_exist_yet_are_predicted() {
    let (stage, _api) = project(2);
    let ran = stage.run_with(|stage| drop(std::fs::write(stage.host_root("n1").join("unlucky"), "")), |_, _| ());
    let cluster = ran.plan.hosts.iter().find(|host| host.host.is_cluster()).unwrap();
    let missing = cluster.missing.as_ref().unwrap();
    assert_eq!(missing.absence, ClusterAbsence::NoKubeconfig);
    assert!(missing.describe_absence().ends_with("/kubeconfig` not found"), "{missing:?}");
    assert_eq!(missing.describe_creation(), "`maker/begin` on n1 creates it");
    let step = &cluster.steps[0];
    assert_eq!((step.verdict, step.reason.raw()), (StepVerdict::Change, "the cluster does not exist yet"));
    assert_eq!(step.envelope.as_ref().unwrap().until.raw(), "maker/begin on n1");
    assert_eq!(cluster.verify[0].verdict, StepVerdict::Pending);
    // The step that creates the cluster fails: its steps are skipped with that reason.
    let why = "skipped: the cluster does not exist: `maker/begin` on n1 did not succeed";
    assert_eq!(ran.describe_step("kubernetes", "inside/space"), why);
    assert_eq!((ran.host_outcome("n1"), ran.host_outcome("n2")), (HostOutcome::Failed, HostOutcome::Changed));
}

#[test]
fn hosts_have_nothing_to_drain_before_there_is_a_cluster() {
    let (stage, api) = project(2);
    std::fs::write(stage.host_root("n1").join("unlucky"), "").unwrap();
    let ran = stage.run_once();
    let windows = ran.plan.hosts.iter().filter_map(|host| host.window.as_ref());
    assert!(windows.clone().all(|window| window.kubernetes == Some(ObservedNode::NoCluster)));
    assert_eq!(windows.count(), 2);
    assert_eq!(list_node_events(&ran), [NodeDrainEvent::NoCluster, NodeDrainEvent::NoCluster]);
    assert!(stage.has_file("n1", "driver") && stage.has_file("n2", "driver"));
    assert_eq!(api.log(), [""; 0]);
}

/// Without a step that creates the cluster, a missing kubeconfig is a mistake of the inventory.
#[test]
fn missing_kubeconfig_of_an_existing_cluster_is_unknown() {
    let (stage, _api) = project(1);
    stage.create_host_file("n1", "made");
    let ran = stage.run_once();
    let told = ran.describe_step("n1", "driver/packages");
    assert!(told.starts_with("unknown: Kubernetes node: kubeconfig `") && told.ends_with("` not found"), "{told}");
    assert!(!stage.has_file("n1", "driver"));
    assert_eq!(ran.host_outcome("kubernetes"), HostOutcome::Unreachable);
    assert_eq!(stage.detect_drift().exit_code(), ExitCode::Unreachable);
}

/// An API that does not answer may have nodes with pods: they are not assumed to be absent.
#[test]
fn silent_api_keeps_hosts_in_service() {
    let (stage, _api) = project(1);
    let dead = "apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: 'http://127.0.0.1:9' } }]
users: [{ name: u, user: { token: t } }]
contexts: [{ name: test, context: { cluster: c, user: u } }]
";
    stage.write_input_file("kubeconfig", dead);
    std::fs::write(stage.host_root("n1").join("unlucky"), "").unwrap();
    let ran = stage.run_once();
    let cluster = ran.plan.hosts.iter().find(|host| host.host.is_cluster()).unwrap();
    assert_eq!(cluster.missing.as_ref().map(|missing| missing.absence), Some(ClusterAbsence::NoAnswer));
    assert!(matches!(ran.plan.hosts[0].window.as_ref().unwrap().kubernetes, Some(ObservedNode::Unknown { .. })));
    let told = ran.describe_step("n1", "driver/packages");
    assert!(told.starts_with("unknown: Kubernetes node: request to `http://127.0.0.1:9` failed"), "{told}");
    assert!(!stage.has_file("n1", "driver"));
}

#[test]
fn drift_and_verify_say_that_the_cluster_could_not_be_seen() {
    let (stage, _api) = project(1);
    let drift = stage.detect_drift();
    let host = drift.hosts.iter().find(|host| host.host.is_cluster()).unwrap();
    let crate::plan::HostReachability::Unreachable(why) = &host.reach else { panic!("{host:?}") };
    assert!(why.why.raw().starts_with("the cluster does not exist yet: kubeconfig `"), "{why:?}");
    let hint = "run `forge apply`: `maker/begin` on n1 creates it";
    assert_eq!(why.hint.as_ref().map(|hint| hint.raw()), Some(hint));
    let report = stage.verify_hosts();
    let cluster = report.hosts.iter().find(|host| host.host.is_cluster()).unwrap();
    assert_eq!(cluster.verify.len(), 2);
    for one in &cluster.verify {
        let VerifyResult::Unknown { reason } = &one.result else { panic!("{one:?}") };
        assert!(reason.raw().starts_with("the cluster does not exist yet: kubeconfig `"), "{reason:?}");
    }
}

/// A saved plan of a cluster that does not exist is made again from its own answers.
#[test]
fn recording_of_a_missing_cluster_gives_the_same_plan() {
    let (stage, _api) = project(1);
    let project = stage.load_project();
    let hosts: Vec<HostName> = stage.hosts.iter().map(HostName::new).collect();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let mut options = stage.run_options();
    options.replay.record = true;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let observed = observe_hosts(&project, &hosts, &options, &events).await;
        let first = plan(&project, &observed, &options);
        let recording = Recording::from_observed(&project, &observed);
        options.replay.observed = Some(std::sync::Arc::new(recording));
        let again = observe_hosts(&project, &hosts, &options, &events).await;
        assert_eq!(plan(&project, &again, &options).hosts, first.hosts);
    });
}

/// The run that creates the cluster also writes its kubeconfig, so its absence does not prevent an apply.
#[test]
fn doctor_notes_the_missing_kubeconfig_of_a_cluster_that_the_run_creates() {
    let find_kubeconfig = |stage: &SimulatedProject| {
        let (project, hosts) = (stage.load_project(), [HostName::new("n1")]);
        let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
        let options = stage.run_options();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let report = runtime.block_on(doctor(&project, &hosts, &options, &options.control_dir, false, &events));
        report.cluster.into_iter().find(|finding| finding.check == "kubeconfig").unwrap()
    };
    let (stage, _api) = project(1);
    let found = find_kubeconfig(&stage);
    assert!(found.what.raw().starts_with("kubeconfig `") && found.what.raw().ends_with("/kubeconfig` not found"));
    let hint = "if the cluster does not exist yet, `maker/begin` creates it during the run";
    assert_eq!((found.weight, found.hint.unwrap().raw()), (DoctorSeverity::Note, hint));
    // Without that step, it is a mistake of the inventory.
    stage.replace_apply("apply: [{ recipe: inside, on: all }]\n");
    assert_eq!(find_kubeconfig(&stage).weight, DoctorSeverity::Problem);
}
