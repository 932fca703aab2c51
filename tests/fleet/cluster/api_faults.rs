//! Each request that changes the cluster is broken in each way: the next run, from another machine, ends as declared. What
//! the objects are is asked of the API, not of forge.
//!
//! A test runs a sample; `tests/faults/run api` runs all.

use super::fault_proxy::{ApiFault, FaultProxy};
use super::helm::{CHART, copy};
use super::support::{Cluster, Helm, Site};
use crate::support::Output;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A namespace, two objects, a secret and a release.
fn recipe(name: &str) -> String {
    format!(
        "recipe: app
summary: Objects of several kinds
params: {{ password: {{ type: secret }} }}
steps:
  - name: place
    namespace: {{ name: {name}, labels: {{ team: research }} }}
  - name: objects
    manifest:
      namespace: {name}
      objects:
        - {{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: settings }}, data: {{ mode: fast }} }}
        - {{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: limits }}, data: {{ jobs: '8' }} }}
  - name: key
    secret: {{ name: key, namespace: {name}, values: {{ token: \"{{{{ params.password }}}}\" }} }}
  - name: chart
    helm_release:
      {{ name: r, namespace: {name}, path: charts/tiny, version: 0.1.0, wait: false, hooks: false, values: {{ replicas: 2 }} }}
"
    )
}

/// A cluster of its own name behind the proxy, to which nothing is applied yet.
struct FaultyPlace<'a> {
    api: &'a Cluster,
    proxy: FaultProxy,
    site: Site,
    name: String,
}

impl FaultyPlace<'_> {
    fn new<'a>(api: &'a Cluster, name: &str) -> FaultyPlace<'a> {
        let proxy = FaultProxy::start(api);
        let site = Site::new(api, "kubeconfig".as_ref(), "test", Helm::Three);
        site.write("kubeconfig", &proxy.kubeconfig());
        copy(CHART.as_ref(), &site.path("recipes/charts/tiny"), name);
        let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
        let inventory = inventory.replace("cluster: site", &format!("cluster: {name}"));
        let apply = "apply: [{ recipe: app, on: all, with: { password: { file: secret } } }]\n";
        site.write("inventory.yaml", &(inventory + apply));
        site.write("secret", "hunter2-of-the-test\n");
        site.write("recipes/app.yaml", &recipe(name));
        FaultyPlace { api, proxy, site, name: name.to_owned() }
    }

    /// Applies without a fault and returns the requests that changed something.
    fn learn(&self) -> Vec<String> {
        self.proxy.arm(None);
        let out = self.site.forge(&["apply", "inventory.yaml", "--yes"]);
        assert_eq!(out.code, 0, "{out}");
        let changes = self.proxy.changes();
        self.check_objects().expect("as declared");
        changes
    }

    fn apply_broken(&self, fault: ApiFault, at: usize) -> Result<(), String> {
        self.proxy.arm(Some((fault, at)));
        if fault != ApiFault::Kill {
            let out = self.site.forge(&["apply", "inventory.yaml", "--yes"]);
            return if self.proxy.is_reached() { Ok(()) } else { Err(format!("the request was not made: {out}")) };
        }
        let mut run = self.site.command(&["apply", "inventory.yaml", "--yes"]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("forge");
        // A loaded machine takes a minute to reach it.
        let end = Instant::now() + Duration::from_secs(180);
        while !self.proxy.is_reached() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        run.kill().expect("killed");
        run.wait().expect("its end");
        let is_reached = self.proxy.is_reached();
        self.proxy.release();
        if is_reached { Ok(()) } else { Err("the request was not made within 180 s".to_owned()) }
    }

    /// Applies from another machine. The lock of a killed run expires after 30 seconds.
    fn apply_again(&self) -> Output {
        self.proxy.arm(None);
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let out = self.site.forge(&["apply", "inventory.yaml", "--yes", "--state", "elsewhere"]);
            if out.code != 7 || Instant::now() > end {
                return out;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn interrupt(&self, fault: ApiFault, at: usize) -> Result<(), String> {
        self.apply_broken(fault, at)?;
        let next = self.apply_again();
        if next.code != 0 {
            return Err(format!("the next run: {next}"));
        }
        self.check_objects().map_err(|why| format!("{why}\n{next}"))?;
        let plan = self.site.forge(&["plan", "inventory.yaml", "--detailed-exitcode"]);
        if plan.code == 0 { Ok(()) } else { Err(format!("the plan after it: {plan}")) }
    }

    /// Asks the API for what is declared.
    fn check_objects(&self) -> Result<(), String> {
        let name = &self.name;
        for (what, args, expected) in [
            ("label", &["get", "namespace", name, "-o", "jsonpath={.metadata.labels.team}"][..], "research"),
            ("data", &["-n", name, "get", "configmap", "settings", "-o", "jsonpath={.data.mode}"], "fast"),
            ("limits", &["-n", name, "get", "configmap", "limits", "-o", "jsonpath={.data.jobs}"], "8"),
            (
                "secret",
                &["-n", name, "get", "secret", "key", "-o", "go-template={{.data.token | base64decode}}"],
                "hunter2-of-the-test",
            ),
            (
                "deployed revisions",
                &[
                    "-n",
                    name,
                    "get",
                    "secret",
                    "-l",
                    "owner=helm,status=deployed",
                    "-o",
                    "jsonpath={.items[*].metadata.labels.name}",
                ],
                "r",
            ),
            (
                "pending revisions",
                &[
                    "-n",
                    name,
                    "get",
                    "secret",
                    "-l",
                    "owner=helm,status in (pending-install,pending-upgrade)",
                    "-o",
                    "name",
                ],
                "",
            ),
        ] {
            let out = self.api.try_kubectl(args, "");
            if !out.ok() || out.stdout.trim() != expected {
                return Err(format!("{what}: not `{expected}`: {out}"));
            }
        }
        Ok(())
    }
}

impl Drop for FaultyPlace<'_> {
    fn drop(&mut self) {
        // The site ends the sandbox of its own state folder only.
        self.site.forge(&["sandbox", "reset", "-i", "inventory.yaml", "--state", "elsewhere"]);
        let names =
            ["delete", "namespace", &self.name, &format!("forge-{}", self.name), "--ignore-not-found", "--wait=false"];
        self.api.try_kubectl(&names, "");
    }
}

/// Runs one case and prints it.
fn run_case(api: &Cluster, name: &str, fault: ApiFault, at: usize, request: &str) -> bool {
    let began = Instant::now();
    let result = FaultyPlace::new(api, name).interrupt(fault, at);
    let case = format!("{fault:?} at {at} `{request}` ({} s)", began.elapsed().as_secs());
    match &result {
        Ok(()) => println!("ok     {case}"),
        Err(why) => println!("DEFECT {case}: {why}"),
    }
    result.is_ok()
}

#[test]
fn sample_of_broken_requests_costs_nothing() {
    let Some(api) = Cluster::require() else { return };
    let changes = FaultyPlace::new(api, "faults").learn();
    assert!(changes.len() > 8, "{changes:#?}");
    for (number, fault) in ApiFault::ALL.into_iter().enumerate() {
        // The number of records, which come last, depends on the time between two steps.
        let at = number * changes.len() / 8;
        assert!(run_case(api, &format!("faults-{number}"), fault, at, &changes[at]));
    }
}

/// The API answers one run nothing for most of a minute. Meanwhile another run takes the lock and ends as declared; the first one
/// changes nothing more.
#[test]
fn run_that_lost_its_lock_changes_nothing_more() {
    let Some(api) = Cluster::require() else { return };
    let place = FaultyPlace::new(api, "lost-lock");
    let (site, direct) = (&place.site, FaultProxy::start(api));
    site.write("direct", &direct.kubeconfig());
    let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write("direct.yaml", &inventory.replace("kubeconfig: kubeconfig", "kubeconfig: direct"));
    place.proxy.arm(Some((ApiFault::Stalled, 4)));
    let mut first = site.command(&["apply", "inventory.yaml", "--yes"]);
    let first = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("forge");
    let end = Instant::now() + Duration::from_secs(180);
    while !place.proxy.is_reached() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = loop {
        let out = site.forge(&["apply", "direct.yaml", "--yes", "--state", "elsewhere"]);
        if out.code != 7 || Instant::now() > end {
            break out;
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    assert_eq!(second.code, 0, "{second}");
    let first = first.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&first.stdout);
    assert!(!first.status.success() && said.contains("the cluster lock was not renewed in time"), "{said}");
    assert_eq!(place.proxy.arrived(), <[String; 0]>::default(), "{said}");
    place.check_objects().expect("as the second run declared");
}

#[test]
#[ignore = "takes an hour: tests/faults/run api"]
fn every_broken_request_costs_nothing() {
    let Some(api) = Cluster::require() else { return };
    let changes = FaultyPlace::new(api, "all-faults").learn();
    let mut broken = Vec::new();
    for (at, request) in changes.iter().enumerate() {
        for (number, fault) in ApiFault::ALL.into_iter().enumerate() {
            if !run_case(api, &format!("all-faults-{at}-{number}"), fault, at, request) {
                broken.push((fault, at));
            }
        }
    }
    println!("{} requests, {} cases, {} defects", changes.len(), changes.len() * ApiFault::ALL.len(), broken.len());
    assert!(broken.is_empty(), "{broken:?}");
}
