//! The chart in `deploy/chart`: both major versions of helm install it, and its service account may do exactly what a
//! coordinator does.

use super::support::{Cluster, Helm};
use super::worker_kubelet::{Treatment, WorkerKubelet};
use super::workers::{ENGINE, GATED, SharedVolume, nothing_is_left};
use crate::support::{Output, limited};
use base64::Engine as _;
use std::path::{Path, PathBuf};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");
/// What a coordinator does, in its namespace.
const RIGHTS: [(&str, &[&str]); 4] = [
    ("jobs.batch", &["create", "list", "delete"]),
    ("pods", &["list"]),
    ("events", &["list"]),
    ("leases.coordination.k8s.io", &["get", "create", "update"]),
];
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const FOREIGN: [&str; 6] = ["secrets", "configmaps", "pods/log", "pods/exec", "nodes", "serviceaccounts"];

fn helm(api: &Cluster, program: &Path, args: &[&str]) -> String {
    let mut command = limited(program);
    command.args(args).arg("--kubeconfig").arg(&api.kubeconfig).args(["--kube-context", "test"]);
    let out = Output::of(&mut command, b"");
    assert!(out.ok(), "{args:?}: {out}");
    out.stdout
}

fn may(api: &Cluster, namespace: &str, account: &str, verb: &str, resource: &str) -> bool {
    let user = format!("--as=system:serviceaccount:{namespace}:{account}");
    let out = api.try_kubectl(&["auth", "can-i", verb, resource, "-n", namespace, &user], "");
    match out.stdout.trim() {
        "yes" => true,
        "no" => false,
        _ => panic!("{out}"),
    }
}

#[test]
fn chart_gives_a_coordinator_exactly_its_rights() {
    let Some(api) = Cluster::require() else { return };
    for (namespace, which) in [("chart-helm3", Helm::Three), ("chart-helm4", Helm::Four)] {
        let program = api.helm(which).expect("a helm");
        let settings = "drift.enabled=true,apply.enabled=true,plan.enabled=true,secrets.forge-ssh=/etc/forge/ssh,project.configMaps[0].name=inventory,project.configMaps[0].folder=project";
        let all = ["--set", settings];
        let linted = Output::of(limited(program).args(["lint", "--strict", CHART]).args(all), b"");
        assert!(linted.ok(), "{linted}");
        helm(api, program, &[&["install", "own", CHART, "-n", namespace, "--create-namespace"], &all[..]].concat());
        let names = api.kubectl(&["get", "cronjob,job,pvc,sa,role", "-n", namespace, "-o", "name"]);
        for name in
            ["cronjob.batch/own-drift", "job.batch/own-apply-1", "job.batch/own-plan-1", "persistentvolumeclaim/forge"]
        {
            assert!(names.lines().any(|line| line == name), "no {name}: {names}");
        }
        // The controller made a pod from the template: the API accepted it.
        api.wait(|| !api.pods(namespace).is_empty());
        for (resource, verbs) in RIGHTS {
            for verb in VERBS {
                let expected = verbs.contains(&verb);
                assert_eq!(may(api, namespace, "own-coordinator", verb, resource), expected, "{verb} {resource}");
            }
        }
        for resource in FOREIGN {
            assert!(!may(api, namespace, "own-coordinator", "get", resource), "{resource}");
        }
        helm(api, program, &["uninstall", "own", "-n", namespace]);
    }
}

/// Writes a kubeconfig with the token of a service account.
fn token_kubeconfig(api: &Cluster, namespace: &str, account: &str, folder: &Path) -> PathBuf {
    let secret = format!(
        r#"apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {{ name: own-token, annotations: {{ kubernetes.io/service-account.name: {account} }} }}"#
    );
    api.kubectl_with(&["apply", "-n", namespace, "-f", "-"], &secret);
    let read = ["get", "secret", "own-token", "-n", namespace, "-o", "jsonpath={.data.token}"];
    api.wait(|| !api.kubectl(&read).is_empty());
    let token = base64::engine::general_purpose::STANDARD.decode(api.kubectl(&read)).expect("base64");
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    let user = text.find("    user: {").expect("a user");
    let end = text[user..].find('\n').expect("a line") + user;
    let token = String::from_utf8(token).expect("text");
    let path = folder.join("kubeconfig");
    std::fs::write(&path, format!("{}    user: {{ token: {token} }}{}", &text[..user], &text[end..])).expect("a file");
    path
}

#[test]
fn coordinator_runs_with_the_rights_of_the_chart() {
    let Some(api) = Cluster::require() else { return };
    let namespace = "chart-run";
    let kubelet = WorkerKubelet::start(api, namespace, Treatment::Start);
    let program = api.helm(Helm::Four).expect("a helm");
    helm(api, program, &["install", "own", CHART, "-n", namespace]);
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = token_kubeconfig(api, namespace, "own-coordinator", folder.path());
    let hosts = "connect: { transport: sandbox }\nhosts: { a: {}, b: {} }\n";
    let recipe = GATED.replace("until test -e /srv/go; do sleep 0.1; done", "true");
    let volume = SharedVolume::new(&kubeconfig, namespace, hosts, &recipe, "");
    let out = volume.forge(&[&["apply", "inventory.yaml", "--yes"], &ENGINE[..]].concat());
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(["a", "b"].map(|host| volume.count_in_sandbox("inventory.yaml", host)), [1, 1]);
    assert_eq!(kubelet.count_started(), 4);
    nothing_is_left(api, namespace);
    helm(api, program, &["uninstall", "own", "-n", namespace]);
}
