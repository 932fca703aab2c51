//! Hosts that store the first time of their findings, if that is declared: a runner without a history reads it from
//! them.

use crate::support::{Fleet, Node, Project};
use serde_json::Value;

const RECIPE: &str = "
recipe: page
steps:
  - name: page
    file: { path: /srv/page, content: \"hello\\n\", mode: '0640' }
  - name: other
    file: { path: /srv/other, content: \"hello\\n\" }
";
const FILE: &str = "/var/lib/forge/applied/fleet@@findings.json";

fn project(nodes: &[Node], policy: &str) -> Project {
    let rest = format!("apply:\n  - {{ recipe: page, on: all }}\n{policy}");
    Project::new(nodes).recipe("page", RECIPE).inventory(&rest)
}

/// Runs drift with its own state folder. Returns the exit code and the step, first time and standing of each finding.
fn look(project: &Project, state: &str) -> (i32, Vec<(String, String, String)>) {
    let out = project.forge(["drift", "inventory.yaml", "--format", "json", "--state", state]);
    let document: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"));
    assert!(!out.stderr.contains("warning"), "{out}");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("-").to_owned();
    let of = |f: &Value| (text(f, "step"), text(f, "first_seen"), text(f, "standing"));
    (out.code, document["drift"]["findings"].as_array().unwrap().iter().map(of).collect())
}

#[test]
fn first_seen_time_is_read_from_the_host_without_history() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, quiet) = (&nodes[0], project(&nodes, ""));
    quiet.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    node.must("chmod 0600 /srv/page");
    let before = node.snapshot();
    let (code, found) = look(&quiet, "first");
    assert!(code == 2 && found[0].2 == "new", "{found:?}");
    assert_eq!(node.snapshot(), before, "drift wrote something without `first_seen: host`");

    let keeping = project(&nodes, "drift: { first_seen: host }\n");
    let (_, found) = look(&keeping, "a");
    let since = found[0].1.clone();
    let mtime = || node.must(&format!("stat -c '%a %U %y' {FILE}"));
    let (kept, snapshot) = (mtime(), node.snapshot());
    assert!(kept.starts_with("600 root "), "{kept}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for state in ["b", "c"] {
        let (_, found) = look(&keeping, state);
        assert_eq!(
            found,
            [("page".to_owned(), since.clone(), "same".to_owned())],
            "with the empty state folder {state}"
        );
    }
    assert_eq!((mtime(), node.snapshot()), (kept.clone(), snapshot), "the same findings were written again");

    node.must("rm /srv/other");
    let (_, found) = look(&keeping, "d");
    assert_eq!((found[0].1.as_str(), found[1].0.as_str(), found[1].2.as_str()), (since.as_str(), "other", "new"));
    assert_ne!(mtime(), kept, "a new set of findings was not written");
    let first = look(&keeping, "e").1[1].1.clone();
    assert_eq!(first, found[1].1);

    // A time in the future is not trusted, and repaired findings are forgotten.
    node.must(&format!("sed -i 's/{since}/2999-01-01T00:00:00Z/g' {FILE}"));
    let (_, found) = look(&keeping, "f");
    assert_eq!(found[0].2, "new", "{found:?}");
    keeping.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    assert_eq!(look(&keeping, "g"), (0, vec![]));
    assert!(!node.exists(FILE), "the file remains without open findings");
}
