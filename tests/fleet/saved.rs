//! Saved plans: bound to their inputs, to the preconditions of each step, and to one run on each host.

use crate::support::{Fleet, Nodes, Project};

const SITE: &str = "
recipe: site
steps:
  - name: demo
    package: { name: forge-demo, version: 1.1-1 }
  - name: page
    needs: []
    file: { path: /srv/page, source: ../files/page.txt }
";

const TOOL: &str = "
recipe: tool
steps:
  - name: config
    file: { path: /etc/tool.conf, content: \"os {{ facts.os.id }}\\n\" }
";

fn project(nodes: &Nodes) -> Project {
    Project::new(nodes)
        .inventory("apply: [{ recipe: site, on: all }, { recipe: tool, on: all }]\n")
        .recipe("site", SITE)
        .recipe("tool", TOOL)
        .file("files/page.txt", "hello\n")
}

fn keep(project: &Project) -> String {
    let kept = project.forge(["plan", "inventory.yaml", "-o", "plan.json"]);
    assert_eq!(kept.code, 0, "{kept}");
    let digest = kept.stderr.split("sha256:").nth(1).expect("a digest").trim().to_owned();
    let shown = project.forge(["show", "plan.json"]);
    assert_eq!(shown.stdout, kept.stdout, "`show` must print what `plan` printed");
    digest
}

/// A package is changed by hand after the review.
#[test]
fn host_changed_after_the_plan_is_stale_and_others_finish() {
    let Some(nodes) = Fleet::take(2) else { return };
    let (moved, still) = (&nodes[0], &nodes[1]);
    let project = project(&nodes);
    let digest = keep(&project);
    moved.must("apt-get install -y forge-demo=1.0-1 >/dev/null 2>&1");

    let applied = project.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(applied.code, 6, "{applied}");
    let told = format!(
        "stale: changed since the plan, skipped\nx site/demo (forge-demo)\n    \
         `forge-demo.version` was unset and is \"1.0-1\", \
         `forge-demo.status` was \"not-installed\" and is \"installed\"\n    at recipes/site.yaml:4:11\n    on {}\n",
        moved.name
    );
    assert!(applied.stdout.contains(&told), "{applied}");
    assert_eq!(moved.must("dpkg-query -Wf '${Version}' forge-demo"), "1.0-1", "the stale host was changed");
    assert!(!moved.exists("/srv/page") && !moved.exists("/etc/tool.conf"), "other steps ran on the stale host");
    assert_eq!(still.must("dpkg-query -Wf '${Version}' forge-demo"), "1.1-1");
    assert_eq!(still.read("/srv/page"), b"hello\n");
    let records = still.must("cat /var/lib/forge/applied/*.json");
    assert!(records.contains(&digest), "the plan is not in the host's records: {records}");

    once_only(&project, &nodes);
}

/// Applies the same plan again: from this controller, and from one without state.
fn once_only(project: &Project, nodes: &Nodes) {
    let (moved, still) = (&nodes[0], &nodes[1]);
    still.must("rm /srv/page");
    let again = project.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(again.code, 6, "{again}");
    assert!(again.stdout.contains("x stale: this plan has already run here: run "), "{again}");
    assert!(again.stdout.contains("or use `--replay` to apply this one again"), "{again}");

    let other = self::project(nodes).file("plan.json", &fs_err::read_to_string(project.path("plan.json")).unwrap());
    let again = other.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(again.code, 6, "{again}");
    assert!(again.stdout.contains("x stale: this plan has already run here: run "), "{again}");
    assert!(!still.exists("/srv/page"), "a step ran");

    // One host is again as the plan observed it, the other has a step to repeat: with `--replay` the plan runs on both.
    moved.must("apt-get purge -y forge-demo >/dev/null 2>&1");
    let replayed = other.forge(["apply", "plan.json", "--yes", "--replay"]);
    assert_eq!(replayed.code, 0, "{replayed}");
    assert!(moved.exists("/srv/page") && still.exists("/srv/page"), "{replayed}");
}

#[test]
fn changed_inputs_are_rejected_before_contacting_hosts() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = project(&nodes);
    keep(&project);
    // A run that contacted the host would wait for it.
    nodes[0].link(false);
    let refused = |project: &Project, what: &str| {
        let refused = project.forge(["apply", "plan.json", "--yes"]);
        assert_eq!(refused.code, 65, "{refused}");
        let said = format!(
            "error: the inputs of `plan.json` have changed; nothing was contacted\n  note: {what}\n  hint: make a new plan"
        );
        assert!(refused.stderr.contains(&said), "{refused}");
    };
    let project = project.recipe("tool", &TOOL.replace("os ", "OS "));
    refused(&project, "`recipes/tool.yaml` changed");
    let project = project.recipe("tool", TOOL).file("files/page.txt", "hallo\n");
    refused(&project, "`files/page.txt` changed");
    let project = project.file("files/page.txt", "hello\n");
    let project = project.inventory("apply: [{ recipe: site, on: all }]\n");
    refused(&project, "`inventory.yaml` changed");
    nodes[0].link(true);
}

const ARTIFACT: &str = "
recipe: site
steps:
  - name: blob
    artifact: { path: /srv/blob, file: ../files/blob }
";

#[test]
fn artifact_with_a_changed_digest_is_rejected() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = Project::new(&nodes).inventory("apply: [{ recipe: site, on: all }]\n").recipe("site", ARTIFACT);
    let project = project.file("files/blob", "one");
    project.forge(["fetch", "inventory.yaml", "--lock"]).must_exit(0);
    keep(&project);
    let project = project.file("files/blob", "two");
    fs_err::remove_file(project.path("inventory.yaml.lock")).unwrap();
    project.forge(["fetch", "inventory.yaml", "--lock"]).must_exit(0);
    let refused = project.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(refused.code, 65, "{refused}");
    assert!(refused.stderr.contains("note: artifact `files/blob`: sha256 changed from "), "{refused}");
    let kept = fs_err::read_to_string(project.path("plan.json")).unwrap();
    let folder = project.path("").display().to_string();
    assert!(!kept.contains(&folder), "the plan contains the path of the project");
    assert!(!nodes[0].exists("/srv/blob"), "{refused}");
}

/// A secret that a host exports is not in any file: steps that depend on it are evaluated only on the host.
#[test]
fn saved_plan_omits_secrets_and_dependent_steps_apply() {
    let Some(nodes) = Fleet::take(1) else { return };
    const CANARY: &str = "canary-9f3a1c";
    let recipe = "
recipe: site
steps:
  - name: token
    scope: one
    file: { path: /srv/token, content: made }
    export: { token: { read: cat /srv/secret, secret: true } }
  - name: user
    needs: [token]
    file: { path: /srv/user, content: '{{ exports[\"site\"].token }}' }
";
    nodes[0].write("/srv/secret", CANARY);
    let project = Project::new(&nodes).inventory("apply: [{ recipe: site, on: all }]\n").recipe("site", recipe);
    let kept = project.forge(["plan", "inventory.yaml", "-o", "plan.json"]);
    assert_eq!(kept.code, 0, "{kept}");
    let text = fs_err::read_to_string(project.path("plan.json")).unwrap();
    assert!(!text.contains(CANARY) && !text.contains(&base64(CANARY)), "{text}");
    assert!(!text.contains("cat /srv/secret"), "the plan contains a command: {text}");
    let applied = project.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert_eq!(nodes[0].read("/srv/user"), CANARY.as_bytes());
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
