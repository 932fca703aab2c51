//! The result of a run can be read afterwards: of a finished run, a failed run, and a run whose controller was killed.

use crate::support::{Fleet, Project};

const GOOD: &str = "
recipe: page
steps:
  - name: file
    file: { path: /srv/page, content: \"hello\\n\" }
";

const BAD: &str = "
recipe: page
steps:
  - name: file
    file: { path: /srv/page, content: \"hello\\n\" }
  - name: nothing
    command: { check: 'false', apply: 'echo out of space; exit 3' }
";

const SLOW: &str = "
recipe: page
steps:
  - name: file
    file: { path: /srv/page, content: \"other\\n\" }
  - name: slow
    command: { creates: /srv/slow, apply: 'touch /srv/begun; sleep 20; touch /srv/slow' }
";

#[test]
fn finished_failed_and_killed_runs_are_shown_afterwards() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).inventory("apply: [{ recipe: page, on: all }]\n").recipe("page", GOOD);
    let applied = project.forge(["apply", "inventory.yaml", "--yes", "--quiet"]);
    assert_eq!(applied.code, 0, "{applied}");
    let shown = project.forge(["show", "last"]);
    assert_eq!(shown.code, 0, "{shown}");
    let table = |text: &str| text.split_once("applied:").map(|(_, rest)| rest.to_owned()).expect("it was applied");
    assert_eq!(table(&shown.stdout), table(&applied.stdout), "not as apply printed it:\n{shown}\n{applied}");

    let project = project.recipe("page", BAD);
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(3);
    let shown = project.forge(["show", "last"]);
    assert!(shown.code == 0 && shown.stdout.contains("| out of space"), "{shown}");

    let project = project.recipe("page", SLOW);
    let mut child = project.begin();
    node.until_exists("/srv/begun");
    child.kill();
    let shown = project.forge(["show", "last"]);
    assert!(shown.stdout.contains("the outcome of `page/slow` is unknown"), "{shown}");
    assert!(shown.stdout.contains("not finished:"), "{shown}");

    let runs = project.forge(["runs"]);
    let came_to: Vec<&str> = runs.stdout.lines().skip(1).filter_map(|line| line.split("fleet    ").nth(1)).collect();
    let expected = ["not finished, 1 host: 1 cancelled", "exit 3, 1 host: 1 failed", "exit 0, 1 host: 1 changed"];
    assert_eq!(came_to, expected, "{runs}");
    let newest = runs.stdout.lines().nth(2).and_then(|line| line.split(' ').next()).expect("a run");
    let first = runs.stdout.lines().nth(3).and_then(|line| line.split(' ').next()).expect("a run");
    let compared = project.forge(["runs", "--compare", first, newest]);
    assert!(compared.stdout.contains("page/nothing: missing → failed"), "{compared}");
}
