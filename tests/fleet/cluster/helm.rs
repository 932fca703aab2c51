//! Releases that the module `kube` observes and changes on a real API, with both major versions of Helm.

use super::support::{Cluster, Helm, kubectl};
use crate::artifacts::server::{Reply, Server};
use crate::support::{Output, limited};
use forge::kube::{self, HelmOptions};
use forge::model::SecretStore;
use forge::object::{ChartQuery, ChartQuerySource, ReleaseQuery, ReleaseState, ReleaseStatus};
use forge::object::{ReleaseAction, ReleaseCall};
use std::path::{Path, PathBuf};
use std::process::Command;

pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/charts/tiny");

/// A chart with its own name and API group, a namespace, and one major version of Helm.
struct Place {
    api: &'static Cluster,
    which: Helm,
    /// Name of the namespace and the chart, and first part of its API group.
    name: String,
    dir: tempfile::TempDir,
    cluster: kube::ClusterApi,
    runtime: tokio::runtime::Runtime,
}

/// Runs a test with each major version.
fn both(name: &str, test: impl Fn(&Place)) {
    let Some(api) = Cluster::require() else { return };
    for (which, major) in [(Helm::Three, 3), (Helm::Four, 4)] {
        eprintln!("with helm {major}");
        test(&Place::new(api, which, &format!("{name}{major}")));
    }
}

/// Copies a chart and gives it its own name and API group.
pub fn copy(from: &Path, to: &Path, name: &str) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let into = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() {
            copy(&entry, &into, name);
        } else {
            let text = std::fs::read_to_string(&entry).expect("a file");
            let text = text.replace("tiny.forge.test", &format!("{name}.forge.test"));
            std::fs::write(into, text.replace("name: tiny\n", &format!("name: {name}\n"))).expect("a file");
        }
    }
}

/// Packages a chart with a helm outside of forge, and serves it as a repository.
pub fn serve_packed(helm: &Path, chart: &Path, folder: &Path) -> Server {
    std::fs::create_dir(folder).expect("a folder");
    let (chart, into) = (chart.display().to_string(), folder.display().to_string());
    for args in [["package", &chart, "-d", &into].as_slice(), &["repo", "index", &into]] {
        let mut command = limited(helm.to_str().expect("text"));
        for kind in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{kind}_HOME"), folder.join(kind));
        }
        let out = Output::of(command.args(args).env_remove("KUBECONFIG"), b"");
        assert!(out.ok(), "{out}");
    }
    let served = folder.to_owned();
    Server::start(move |request| match std::fs::read(served.join(request.path.trim_start_matches('/'))) {
        Ok(body) => Reply::file(&body, request),
        Err(_) => Reply::status(404),
    })
}

impl Place {
    fn new(api: &'static Cluster, which: Helm, name: &str) -> Place {
        let dir = tempfile::Builder::new().prefix("forge-").tempdir().expect("a folder");
        copy(CHART.as_ref(), &dir.path().join("chart"), name);
        kubectl(&["create", "namespace", name]);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let access = forge::object::ClusterAccess {
            kubeconfig: api.kubeconfig.to_str().expect("text").into(),
            context: "test".to_owned(),
            trusted: false,
            via: None,
            withheld: Default::default(),
            namespace: forge::object::DEFAULT_NAMESPACE.to_owned(),
            retry_s: 20,
        };
        let cluster = runtime.block_on(kube::ClusterApi::open(&access)).expect("a cluster");
        let program = api.helm(which).expect("a helm").to_str().expect("text").into();
        let cluster = cluster.with_helm(HelmOptions { program, ..HelmOptions::default() });
        Place { api, which, name: name.to_owned(), dir, cluster, runtime }
    }

    fn chart(&self) -> PathBuf {
        self.dir.path().join("chart")
    }

    fn asked(&self, values: &str) -> ReleaseQuery {
        let from = ChartQuerySource::Path(self.chart().to_str().expect("text").to_owned());
        ReleaseQuery {
            name: "r".to_owned(),
            namespace: self.name.clone(),
            chart: Some(ChartQuery { from, version: "0.1.0".to_owned(), sha256: None }),
            values: values.to_owned(),
            upstream: None,
            absent: false,
            revision: None,
        }
    }

    fn look(&self, values: &str) -> ReleaseState {
        let asked = self.asked(values);
        self.runtime.block_on(self.cluster.observe_release(&asked, &SecretStore::default())).expect("a release")
    }

    fn call(&self, values: &str, deed: ReleaseAction) -> ReleaseCall {
        ReleaseCall {
            asked: self.asked(values),
            deed,
            timeout_s: 20,
            wait: false,
            hooks: false,
            stale_s: 0,
            adopt: false,
        }
    }

    fn try_bring(&self, call: &ReleaseCall) -> Result<Vec<String>, kube::KubeError> {
        let said = std::sync::Mutex::new(Vec::new());
        let secrets = SecretStore::default();
        let say = |line: &str| said.lock().expect("lines").push(line.to_owned());
        self.runtime.block_on(self.cluster.execute_release_call(call, &secrets, &say))?;
        Ok(said.into_inner().expect("lines"))
    }

    fn bring(&self, values: &str, deed: ReleaseAction) -> Vec<String> {
        self.try_bring(&self.call(values, deed)).unwrap_or_else(|error| panic!("{error}: {:?}", error.hint))
    }

    fn install(&self, values: &str) {
        self.bring(values, ReleaseAction::Upgrade { force: false });
    }

    /// Returns a command of another user's helm.
    fn helm(&self, args: &[&str]) -> Command {
        let mut command = limited(self.api.helm(self.which).expect("a helm").to_str().expect("text"));
        command.args(args).arg("--kubeconfig").arg(&self.api.kubeconfig).args([
            "--kube-context",
            "test",
            "-n",
            &self.name,
        ]);
        for kind in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{kind}_HOME"), self.dir.path().join(kind));
        }
        command
    }

    fn kubectl(&self, args: &[&str]) -> String {
        kubectl(&[&["-n", &self.name], args].concat())
    }

    /// Returns Helm's revisions and their statuses.
    fn history(&self) -> String {
        self.kubectl(&[
            "get",
            "secret",
            "-l",
            "owner=helm",
            "--sort-by=.metadata.labels.version",
            "-o",
            "jsonpath={range .items[*]}{.metadata.labels.version}={.metadata.labels.status} {end}",
        ])
    }

    /// Returns the kind of its custom object: other tests have kinds of the same short name.
    fn gadgets(&self) -> String {
        format!("gadgets.{}.forge.test", self.name)
    }

    /// Returns the names of the chart's CRDs in the cluster.
    fn crds(&self) -> Vec<String> {
        let all = kubectl(&["get", "crd", "-o", "jsonpath={.items[*].metadata.name}"]);
        let own = format!(".{}.forge.test", self.name);
        all.split(' ').filter(|name| name.ends_with(&own)).map(str::to_owned).collect()
    }

    fn is_four(&self) -> bool {
        matches!(self.which, Helm::Four)
    }
}

fn status(state: &ReleaseState) -> Option<ReleaseStatus> {
    state.release.as_ref().map(|release| release.status)
}

/// Returns all differences as one text.
fn told(state: &ReleaseState) -> String {
    let mut lines = Vec::new();
    lines.extend(state.values.iter().map(|field| format!("value {}", field.path)));
    lines.extend(state.manifest.iter().map(|object| format!("manifest {}", object.object)));
    for live in &state.live {
        let by = |field: &forge::object::FieldChange| field.by.as_ref().map_or("?", |by| by.name.raw()).to_owned();
        lines.extend(live.missing.then(|| format!("missing {}", live.object)));
        lines.extend(
            live.changed.iter().map(|field| format!("changed {} {} by {}", live.object, field.path, by(field))),
        );
        lines.extend(live.added.iter().map(|field| format!("added {} {} by {}", live.object, field.path, by(field))));
    }
    lines.join("\n")
}

#[test]
fn no_change_makes_no_revision() {
    both("nochange", |place| {
        let values = r#"{"replicas":2}"#;
        place.install(values);
        for _ in 0..2 {
            let state = place.look(values);
            assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
            assert!(state.conflicts.is_empty() && !state.random);
            assert!(state.release.expect("a release").ours);
        }
        // Quantities that the API writes in another format (1024Mi, 1000m) are not a difference either.
        assert_eq!(place.history(), "1=deployed ");
    });
}

#[test]
fn no_values_and_empty_values_are_the_same() {
    both("novalues", |place| {
        place.install("{}");
        assert_eq!(told(&place.look("{}")), "");
    });
}

#[test]
fn first_install_with_crds_is_planned_and_applied() {
    both("first", |place| {
        let state = place.look("{}");
        let chart = state.chart.as_ref().expect("a chart");
        assert!(state.release.is_none() && chart.crds.iter().all(|crd| !crd.present));
        assert_eq!(chart.crds[0].name, place.gadgets());
        assert_eq!(chart.images, ["forge.local/tiny:1"]);
        place.install("{}");
        let state = place.look("{}");
        assert!(state.chart.as_ref().expect("a chart").crds.iter().all(|crd| crd.present));
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
    });
}

#[test]
fn only_crds_of_enabled_subcharts_are_installed() {
    both("subcharts", |place| {
        let names = |values: &str| {
            let crds = place.look(values).chart.expect("a chart").crds;
            crds.iter().map(|crd| crd.name.split('.').next().expect("a name").to_owned()).collect::<Vec<_>>().join(" ")
        };
        let on = r#"{"extra":{"enabled":true}}"#;
        // `helm show crds` has them all, in random order.
        assert_eq!(
            [names("{}"), names(on), names(on), names(on)],
            ["gadgets", "gadgets gears widgets", "gadgets gears widgets", "gadgets gears widgets"]
        );
        place.install("{}");
        assert_eq!(place.crds(), [place.gadgets()]);
        let said = place.bring(on, ReleaseAction::Upgrade { force: false });
        assert!(said.contains(&format!("installing CRD gears.{}.forge.test", place.name)), "{said:?}");
        assert_eq!(place.crds().len(), 3);
        let state = place.look(on);
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
    });
}

const WITH_KINDS: &str = r#"{"kinds":true}"#;

fn doomed(state: &ReleaseState) -> Vec<String> {
    state.doomed.iter().map(|crd| format!("{} {}", crd.name, crd.objects)).collect()
}

#[test]
fn crds_in_templates_are_counted_before_they_are_deleted() {
    both("doomed", |place| {
        place.install(WITH_KINDS);
        let trinkets = format!("trinkets.{}.forge.test", place.name);
        for name in ["one", "two"] {
            let object = format!(
                "apiVersion: {0}.forge.test/v1\nkind: Trinket\nmetadata: {{ name: {name}, namespace: {0} }}\n",
                place.name
            );
            place.api.kubectl_with(&["create", "-f", "-"], &object);
        }
        let removal = |values: &str| {
            let asked = ReleaseQuery { absent: true, ..place.asked(values) };
            place.runtime.block_on(place.cluster.observe_release(&asked, &SecretStore::default())).expect("a release")
        };
        // An upgrade to a version without it deletes it too.
        assert_eq!(doomed(&place.look(WITH_KINDS)), Vec::<String>::new());
        assert_eq!(doomed(&place.look("{}")), [format!("{trinkets} 2")]);
        assert_eq!(doomed(&removal(WITH_KINDS)), [format!("{trinkets} 2")]);
        place.install(r#"{"kinds":true,"keep":true}"#);
        let kept = removal(r#"{"kinds":true,"keep":true}"#);
        assert_eq!((doomed(&kept), kept.kept), (vec![], vec![format!("CustomResourceDefinition {trinkets}")]));
        place.bring(WITH_KINDS, ReleaseAction::Uninstall);
        assert_eq!(place.kubectl(&["get", &trinkets, "-o", "name"]).lines().count(), 2);
    });
}

/// An earlier version of the chart had the CRD in its folder `crds`.
#[test]
fn crds_without_a_release_are_taken_over() {
    both("adopted", |place| {
        place.install(WITH_KINDS);
        let trinkets = format!("trinkets.{}.forge.test", place.name);
        let out = Output::of(&mut place.helm(&["uninstall", "r", "--no-hooks"]), b"");
        assert!(out.ok(), "{out}");
        let definition = std::fs::read_to_string(place.chart().join("templates/kinds.yaml")).expect("a file");
        let plain: String =
            definition.lines().filter(|line| !line.contains("{{")).map(|line| format!("{line}\n")).collect();
        let apply = ["apply", "--server-side", "--field-manager=helm", "-f", "-"];
        place.api.kubectl_with(&apply, &plain.replace("tiny", &place.name));
        place.install("{}");
        let unowned = |state: ReleaseState| {
            state.unowned.into_iter().map(|crd| (crd.name, crd.owner.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(unowned(place.look(WITH_KINDS)), [(trinkets.clone(), false)]);
        let upgrade = place.call(WITH_KINDS, ReleaseAction::Upgrade { force: true });
        let error = place.try_bring(&upgrade).unwrap_err();
        assert!(error.message.contains("invalid ownership metadata"), "{error}");
        let said = place.try_bring(&ReleaseCall { adopt: true, ..upgrade }).expect("an upgrade");
        assert!(said.contains(&format!("taking over CRD {trinkets}")), "{said:?}");
        let state = place.look(WITH_KINDS);
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
        assert_eq!(unowned(state), []);
    });
}

#[test]
fn values_change_is_reported_field_by_field() {
    both("values", |place| {
        place.install(r#"{"replicas":2,"greeting":"a"}"#);
        let state = place.look(r#"{"replicas":3}"#);
        assert_eq!(
            told(&state),
            "value greeting\nvalue replicas\nmanifest ConfigMap r-greeting\nmanifest Deployment r\nmanifest Gadget r"
        );
        place.install(r#"{"replicas":3}"#);
        assert_eq!(told(&place.look(r#"{"replicas":3}"#)), "");
        assert_eq!(place.history(), "1=superseded 2=deployed ");
    });
}

#[test]
fn field_conflict_is_detected_before_the_upgrade() {
    both("conflict", |place| {
        place.install("{}");
        place.kubectl(&["set", "image", "deployment/r", "main=forge.local/other:2"]);
        let wanted = r#"{"image":"forge.local/tiny:2"}"#;
        let state = place.look(wanted);
        let image = "spec.template.spec.containers[name=main].image";
        assert!(told(&state).contains(&format!("changed Deployment r {image} by kubectl-set")), "{}", told(&state));
        assert_eq!(state.conflicts.len(), usize::from(place.is_four()), "{:?}", state.conflicts);
        if let Some(conflict) = state.conflicts.first() {
            assert_eq!((conflict.object.as_str(), conflict.by.raw()), ("Deployment r", "kubectl-set"));
            // Without force, it fails and leaves a failed revision.
            let error = place.try_bring(&place.call(wanted, ReleaseAction::Upgrade { force: false })).unwrap_err();
            assert!(error.message.contains("conflict"), "{error}");
            assert_eq!(status(&place.look(wanted)), Some(ReleaseStatus::Failed));
        }
        place.bring(wanted, ReleaseAction::Upgrade { force: place.is_four() });
        let state = place.look(wanted);
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
    });
}

#[test]
fn object_drift_is_repaired_without_a_new_revision() {
    both("drift", |place| {
        place.install("{}");
        place.kubectl(&["scale", "deployment/r", "--replicas=3"]);
        place.kubectl(&[
            "patch",
            &place.gadgets(),
            "r",
            "--type=merge",
            "-p",
            r#"{"spec":{"driver":{"enabled":true}}}"#,
        ]);
        place.kubectl(&["delete", "configmap", "r-greeting"]);
        let state = place.look("{}");
        let seen = told(&state);
        for line in [
            "missing ConfigMap r-greeting",
            "changed Deployment r spec.replicas by ",
            "changed Gadget r spec.driver.enabled by kubectl-patch",
        ] {
            assert!(seen.contains(line), "{seen}");
        }
        assert!(state.values.is_empty() && state.manifest.is_empty());
        place.bring("{}", ReleaseAction::Repair);
        assert_eq!(told(&place.look("{}")), "");
        assert_eq!(place.history(), "1=deployed ");
        let owner = place.kubectl(&[
            "get",
            "configmap",
            "r-greeting",
            "-o",
            "jsonpath={.metadata.labels} {.metadata.annotations}",
        ]);
        assert!(owner.contains("Helm") && owner.contains("meta.helm.sh/release-name"), "{owner}");
        // Repaired fields do not block a later upgrade.
        let next = r#"{"replicas":2,"greeting":"b"}"#;
        let force = !place.look(next).conflicts.is_empty();
        place.bring(next, ReleaseAction::Upgrade { force });
        assert_eq!(told(&place.look(next)), "");
        assert_eq!(place.history(), "1=superseded 2=deployed ");
    });
}

#[test]
fn upgrade_repairs_drift_of_custom_objects() {
    both("custom", |place| {
        place.install("{}");
        place.kubectl(&[
            "patch",
            &place.gadgets(),
            "r",
            "--type=merge",
            "-p",
            r#"{"spec":{"driver":{"enabled":true}}}"#,
        ]);
        let next = r#"{"replicas":2}"#;
        let force = !place.look(next).conflicts.is_empty();
        let said = place.bring(next, ReleaseAction::Upgrade { force });
        // Helm 3 compares manifests, and keeps values that a user set in a custom object.
        assert_eq!(said.iter().any(|line| line == "repairing Gadget r"), !place.is_four(), "{said:?}");
        assert_eq!(told(&place.look(next)), "");
    });
}

#[test]
fn manually_added_fields_are_found_and_removed() {
    both("added", |place| {
        place.install("{}");
        place.kubectl(&["set", "env", "deployment/r", "EXTRA=1"]);
        place.kubectl(&["label", "configmap", "r-greeting", "by-hand=yes"]);
        place.kubectl(&["patch", "configmap", "r-greeting", "--type=merge", "-p", r#"{"data":{"more":"x"}}"#]);
        place.kubectl(&["patch", &place.gadgets(), "r", "--type=merge", "-p", r#"{"spec":{"more":{"x":1}}}"#]);
        let seen = told(&place.look("{}"));
        for line in [
            "added Deployment r spec.template.spec.containers[name=main].env[name=EXTRA] by kubectl-set",
            "added ConfigMap r-greeting metadata.labels.by-hand by kubectl-label",
            "added ConfigMap r-greeting data.more by kubectl-patch",
            "added Gadget r spec.more by kubectl-patch",
        ] {
            assert!(seen.contains(line), "{seen}");
        }
        place.bring("{}", ReleaseAction::Repair);
        assert_eq!(told(&place.look("{}")), "");
        assert_eq!(place.history(), "1=deployed ");
    });
}

#[test]
fn variable_that_replaces_one_of_a_fresh_release_is_an_addition() {
    both("replaced", |place| {
        place.install("{}");
        place.kubectl(&["set", "env", "deployment/r", "GREETING-", "OTHER=2"]);
        let seen = told(&place.look("{}"));
        assert!(seen.contains("containers[name=main].env[name=OTHER] by kubectl-set"), "{seen}");
        place.bring("{}", ReleaseAction::Repair);
        assert_eq!(told(&place.look("{}")), "");
        let names = "jsonpath={.spec.template.spec.containers[0].env[*].name}";
        assert_eq!(place.kubectl(&["get", "deployment", "r", "-o", names]), "GREETING");
    });
}

#[test]
fn kubectl_rollout_restart_is_not_drift() {
    both("restart", |place| {
        place.install("{}");
        place.kubectl(&["rollout", "restart", "deployment/r"]);
        assert_eq!(told(&place.look("{}")), "");
    });
}

#[test]
fn chart_with_random_output_is_detected() {
    both("random", |place| {
        let values = r#"{"random":true}"#;
        place.install(values);
        let state = place.look(values);
        assert!(state.random);
        assert_eq!(told(&state), "");
        assert_eq!(told(&place.look(r#"{"random":true,"greeting":"b"}"#)), "value greeting");
    });
}

#[test]
fn chart_lookups_do_not_cause_a_difference() {
    both("lookup", |place| {
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: r-lookup\ndata:\n  seen: {{ (lookup \"v1\" \"Namespace\" \"\" \"default\").metadata.name | default \"nobody\" | quote }}\n";
        std::fs::write(place.chart().join("templates/lookup.yaml"), template.replace(".metadata.name", ".kind"))
            .expect("a template");
        place.install("{}");
        assert_eq!(place.kubectl(&["get", "configmap", "r-lookup", "-o", "jsonpath={.data.seen}"]), "Namespace");
        assert_eq!(told(&place.look("{}")), "");
    });
}

#[test]
fn failed_release_is_reported_and_repaired() {
    both("failed", |place| {
        place.install("{}");
        // A deployment never becomes ready without a kubelet.
        let chart = place.chart().display().to_string();
        let out = Output::of(
            &mut place.helm(&["upgrade", "r", &chart, "--set", "replicas=2", "--wait", "--timeout", "2s"]),
            b"",
        );
        assert!(!out.ok(), "{out}");
        let state = place.look("{}");
        assert_eq!((status(&state), place.history().as_str()), (Some(ReleaseStatus::Failed), "1=deployed 2=failed "));
        let force = !state.conflicts.is_empty();
        place.bring("{}", ReleaseAction::Upgrade { force });
        let state = place.look("{}");
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
    });
}

#[test]
fn upgrade_that_does_not_become_ready_is_rolled_back() {
    both("rollback", |place| {
        place.install("{}");
        let call = ReleaseCall {
            wait: true,
            timeout_s: 3,
            ..place.call(r#"{"greeting":"b"}"#, ReleaseAction::Upgrade { force: false })
        };
        let error = place.try_bring(&call).unwrap_err();
        assert!(error.message.starts_with("`helm upgrade`: "), "{error}");
        let history = place.history();
        assert!(history.contains("2=failed") && !history.contains("pending"), "{history}");
    });
}

/// Starts another user's helm, which waits for a hook that never ends without a kubelet, and kills it.
fn killed(place: &Place, verb: &[&str]) {
    let chart = place.chart().display().to_string();
    // Not below `timeout`, which a kill would end instead of helm.
    let mut command = std::process::Command::new(place.api.helm(place.which).expect("a helm"));
    command.env("HOME", place.dir.path());
    command.args(verb).args(["r", &chart, "--set", "hook=true", "--kubeconfig"]).arg(&place.api.kubeconfig);
    command.args(["--kube-context", "test", "-n", &place.name]);
    let mut child = command.spawn().expect("a helm");
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        if place.history().contains("pending") {
            break;
        }
    }
    child.kill().expect("a kill");
    child.wait().expect("an end");
    assert!(place.history().contains("pending"), "{}", place.history());
}

#[test]
fn killed_upgrade_is_rolled_back_before_the_next_upgrade() {
    both("killed", |place| {
        place.install("{}");
        killed(place, &["upgrade"]);
        let wanted = r#"{"replicas":2}"#;
        let state = place.look(wanted);
        let release = state.release.as_ref().expect("a release");
        assert_eq!(release.status, ReleaseStatus::PendingUpgrade);
        assert!(release.earlier && release.age_s < 60);
        // Another process may still be working on it.
        let young = ReleaseCall { stale_s: 600, ..place.call(wanted, ReleaseAction::Upgrade { force: false }) };
        let error = place.try_bring(&young).unwrap_err();
        assert!(error.message.starts_with("another helm process is running: `pending-upgrade` for "), "{error}");
        place.bring(wanted, ReleaseAction::Upgrade { force: false });
        let state = place.look(wanted);
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
    });
}

#[test]
fn killed_first_install_is_replaced_by_the_next_upgrade() {
    both("killedfirst", |place| {
        killed(place, &["install"]);
        assert_eq!(status(&place.look("{}")), Some(ReleaseStatus::PendingInstall));
        place.bring("{}", ReleaseAction::Upgrade { force: false });
        let state = place.look("{}");
        assert_eq!((status(&state), told(&state).as_str()), (Some(ReleaseStatus::Deployed), ""));
    });
}

#[test]
fn hooks_are_listed_and_time_out() {
    both("hooks", |place| {
        let values = r#"{"hook":true}"#;
        let state = place.look(values);
        let hooks = &state.chart.as_ref().expect("a chart").hooks;
        assert_eq!(
            (hooks[0].object.as_str(), hooks[0].events.join(" ").as_str()),
            ("Job r-hook", "pre-install pre-upgrade")
        );
        let error = place.try_bring(&ReleaseCall {
            hooks: true,
            timeout_s: 3,
            ..place.call(values, ReleaseAction::Upgrade { force: false })
        });
        assert!(error.is_err(), "{error:?}");
        assert_eq!(status(&place.look(values)), Some(ReleaseStatus::Failed));
        place.install(values);
        assert_eq!(status(&place.look(values)), Some(ReleaseStatus::Deployed));
    });
}

#[test]
fn uninstall_keeps_crds() {
    both("gone", |place| {
        place.install("{}");
        place.bring("{}", ReleaseAction::Uninstall);
        let state = place.look("{}");
        assert!(state.release.is_none());
        assert!(state.chart.as_ref().expect("a chart").crds.iter().all(|crd| crd.present));
        assert_eq!(place.history(), "");
        // Again: the release does not exist, which is not an error.
        place.bring("{}", ReleaseAction::Uninstall);
    });
}

#[test]
fn removal_does_not_need_a_chart_that_renders() {
    both("unrendered", |place| {
        place.install("{}");
        let asked = ReleaseQuery { absent: true, ..place.asked("{}") };
        let look = || {
            let secrets = SecretStore::default();
            let seen = place.cluster.observe_release(&asked, &secrets);
            place.runtime.block_on(seen).expect("a release")
        };
        assert!(look().chart.is_some());
        // As the chart of the network operator on Kubernetes 1.20, which is too old for it.
        let file = place.chart().join("Chart.yaml");
        let text = std::fs::read_to_string(&file).expect("a chart");
        std::fs::write(&file, text + "\nkubeVersion: '>= 99.0.0'\n").expect("a chart");
        let state = look();
        let why = state.unrendered.as_ref().expect("a reason").raw();
        assert!(state.chart.is_none() && why.contains("kubeVersion"), "{why}");
        let call = ReleaseCall { asked: asked.clone(), ..place.call("{}", ReleaseAction::Uninstall) };
        place.try_bring(&call).expect("a removal");
        assert_eq!(place.history(), "");
    });
}

#[test]
fn foreign_release_is_reported() {
    both("foreign", |place| {
        let chart = place.chart().display().to_string();
        kubectl(&["create", "namespace", &format!("{}-other", place.name)]);
        let other = format!("{}-other", place.name);
        let mut theirs = place.helm(&["install", "theirs", &chart, "--no-hooks", "--namespace", &other]);
        let out = Output::of(&mut theirs, b"");
        assert!(out.ok(), "{out}");
        let state = place.look("{}");
        let foreign: Vec<_> = state.foreign.iter().map(|r| format!("{} {}", r.name, r.version)).collect();
        assert_eq!(foreign, ["theirs 0.1.0"]);
        // A release of the same name belongs to another user, and to forge once it is taken over.
        let out = Output::of(&mut place.helm(&["install", "r", &chart, "--no-hooks", "--set", "replicas=2"]), b"");
        assert!(out.ok(), "{out}");
        assert!(!place.look("{}").release.expect("a release").ours);
        place.install("{}");
        assert!(place.look("{}").release.expect("a release").ours);
    });
}

#[test]
fn chart_with_an_undeclared_version_is_rejected() {
    both("version", |place| {
        let mut asked = place.asked("{}");
        asked.chart.as_mut().expect("a chart").version = "0.2.0".to_owned();
        let error = place.runtime.block_on(place.cluster.observe_release(&asked, &SecretStore::default())).unwrap_err();
        assert_eq!(error.message, format!("the chart `{}` has version `0.1.0`, but `0.2.0` is declared", place.name));
    });
}

#[test]
fn a_packed_chart_is_checked_by_its_digest() {
    both("packed", |place| {
        let chart = place.chart().display().to_string();
        let out = Output::of(
            limited(place.api.helm(place.which).expect("a helm").to_str().expect("text"))
                .args(["package", &chart, "-d"])
                .arg(place.dir.path()),
            b"",
        );
        assert!(out.ok(), "{out}");
        let packed = place.dir.path().join(format!("{}-0.1.0.tgz", place.name));
        let sum = Output::of(limited("sha256sum").arg(&packed), b"").stdout;
        let sha256 = sum.split(' ').next().expect("a digest").to_owned();
        let mut asked = place.asked("{}");
        let look = |asked: &ReleaseQuery| {
            place.runtime.block_on(place.cluster.observe_release(asked, &SecretStore::default()))
        };
        let from = ChartQuerySource::Path(packed.to_str().expect("text").to_owned());
        asked.chart =
            Some(ChartQuery { from: from.clone(), version: "0.1.0".to_owned(), sha256: Some(sha256.clone()) });
        assert!(look(&asked).is_ok());
        asked.chart = Some(ChartQuery { from, version: "0.1.0".to_owned(), sha256: Some("0".repeat(64)) });
        let name = format!("{}-0.1.0.tgz", place.name);
        assert_eq!(
            look(&asked).unwrap_err().message,
            format!("the chart `{name}` has the sha256 {sha256}, declared is {}", "0".repeat(64))
        );
    });
}

#[test]
fn repository_chart_is_fetched_once_and_cached() {
    both("repo", |place| {
        let program = place.api.helm(place.which).expect("a helm");
        let server = serve_packed(program, &place.chart(), &place.dir.path().join("repo"));
        let charts = Some(place.dir.path().join("charts").to_str().expect("text").into());
        let program: camino::Utf8PathBuf = place.api.helm(place.which).expect("a helm").to_str().expect("text").into();
        let look = |version: &str, offline: bool| {
            let options =
                HelmOptions { program: program.clone(), charts: charts.clone(), offline, ..HelmOptions::default() };
            let cluster = place.cluster.clone().with_helm(options);
            let from = ChartQuerySource::Repository { url: server.url(""), name: place.name.clone() };
            let chart = Some(ChartQuery { from, version: version.to_owned(), sha256: None });
            let asked = ReleaseQuery { chart, ..place.asked("{}") };
            place.runtime.block_on(cluster.observe_release(&asked, &SecretStore::default()))
        };
        let error = look("0.1.0", true).unwrap_err();
        assert_eq!(error.message, format!("the chart `{}` 0.1.0 is not cached, and `--offline` is set", place.name));
        look("0.1.0", false).expect("a release");
        let asked = server.asked().len();
        assert!(asked >= 2);
        look("0.1.0", false).expect("a release");
        look("0.1.0", true).expect("a release");
        assert_eq!(server.asked().len(), asked);
        let error = look("0.2.0", false).unwrap_err();
        assert!(error.message.starts_with(&format!("the chart `{}` 0.2.0 cannot be fetched: ", place.name)), "{error}");
    });
}

#[test]
fn helm_variables_are_removed_from_its_environment() {
    let Some(api) = Cluster::require() else { return };
    for which in [Helm::Three, Helm::Four] {
        let out = Output::of(limited(api.helm(which).expect("a helm").to_str().expect("text")).arg("env"), b"");
        let known = kube::helm_variables();
        for name in out.stdout.lines().filter_map(|line| line.split('=').next()) {
            assert!(known.contains(&name), "`{name}` is not removed from helm's environment");
        }
    }
}
