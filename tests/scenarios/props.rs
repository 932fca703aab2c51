//! Properties of plans of every project: order, purity, and that only steps with a change act.

use super::{Case, Look, load, look, plan_of};
use camino::Utf8Path;
use forge::config::{Project, StepFilter};
use forge::model::{StepScope, StepVerdict};
use forge::plan::{HostPlan, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A step of a generated recipe.
#[derive(Clone, Debug)]
struct Made {
    kind: u8,
    scope_one: bool,
    effective: bool,
    /// A recipe before this one that the step needs, and how.
    needs: Option<(usize, u8)>,
}

fn made() -> impl Strategy<Value = Made> {
    let needs = proptest::option::of((0usize..4, 0u8..5));
    (0u8..3, prop::bool::weighted(0.15), prop::bool::weighted(0.2), needs)
        .prop_map(|(kind, scope_one, effective, needs)| Made { kind, scope_one, effective, needs })
}

type Recipes = Vec<Vec<Made>>;

fn recipes() -> impl Strategy<Value = Recipes> {
    prop::collection::vec(prop::collection::vec(made(), 1..4), 1..5)
}

/// Generates the answers to probes: 0 as desired, 1 not as desired, 2 unknown.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => Just(0u8), 4 => Just(1u8), 1 => Just(2u8)], 64)
}

fn text(at: usize, steps: &[Made]) -> String {
    let mut text = format!("recipe: r{at}\nsummary: Made up\nsteps:\n");
    for (number, step) in steps.iter().enumerate() {
        text += &format!("  - name: s{number}\n");
        if step.scope_one {
            text += "    scope: one\n";
        }
        if let Some((to, how)) = step.needs.filter(|(to, _)| *to < at) {
            text += &match how {
                0 => format!("    needs: [r{to}]\n"),
                1 => format!("    needs: [r{to}@configured]\n"),
                2 => format!("    needs: [r{to}@verified]\n"),
                3 => format!("    after: [r{to}]\n"),
                _ => format!("    needs: {{ r{to}: {{ of: selected, least: 60% }} }}\n"),
            };
        }
        if step.effective {
            text += &format!("    effective: {{ by: [reboot], check: effective-{at}-{number} }}\n");
        }
        let name = format!("{at}-{number}");
        text += &match step.kind {
            0 => format!("    file: {{ path: /x/{name}, content: x }}\n"),
            1 => format!("    package: {{ name: p{name} }}\n"),
            _ => format!("    command: {{ check: check-{name}, apply: make-{name} }}\n"),
        };
    }
    text + &format!("verify:\n  - {{ name: holds, check: verify-{at} }}\n")
}

fn project(recipes: &Recipes) -> (tempfile::TempDir, Project) {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(root.join("recipes")).unwrap();
    let mut inventory = "cluster: made\nhosts:\n  h[1:3]:\napply:\n".to_owned();
    for (at, steps) in recipes.iter().enumerate() {
        inventory += &format!("  - {{ recipe: r{at}, on: all }}\n");
        std::fs::write(root.join(format!("recipes/r{at}.yaml")), text(at, steps)).unwrap();
    }
    std::fs::write(root.join("inventory.yaml"), inventory).unwrap();
    let project = load(&root.join("inventory.yaml"));
    (folder, project)
}

/// Returns a host's answers, each from the next number.
fn host(recipes: &Recipes, numbers: &mut impl Iterator<Item = u8>) -> Value {
    let mut said = json!({ "path /x": { "kind": "directory", "mode": "0755" } });
    let output = |number| match number {
        2 => json!({ "unknown": "timed out after 30 s" }),
        status => json!({ "status": status }),
    };
    let file = |number| match number {
        0 => json!({ "text": "x" }),
        1 => json!("absent"),
        _ => json!({ "unknown": "permission denied" }),
    };
    let package = |number| match number {
        0 => json!({ "status": "installed", "version": "1.0", "candidate": "1.0", "available": ["1.0"] }),
        1 => json!({ "status": "not-installed", "candidate": "1.0", "available": ["1.0"] }),
        _ => json!({ "unknown": "dpkg-query is missing" }),
    };
    for (at, steps) in recipes.iter().enumerate() {
        for number in 0..steps.len() {
            let name = format!("{at}-{number}");
            said[format!("path /x/{name}")] = file(numbers.next().unwrap());
            said[format!("package p{name}")] = package(numbers.next().unwrap());
            said[format!("sh check-{name}")] = output(numbers.next().unwrap());
            said[format!("sh effective-{name}")] = output(numbers.next().unwrap());
        }
        said[format!("sh verify-{at}")] = output(numbers.next().unwrap());
    }
    said
}

fn case(recipes: &Recipes, numbers: &[u8]) -> Case {
    let mut numbers = numbers.iter().copied().cycle();
    let hosts: BTreeMap<String, Value> = (1..=3).map(|n| (format!("h{n}"), host(recipes, &mut numbers))).collect();
    Case { answers: json!({ "hosts": hosts }), filter: StepFilter::default(), verbose: 0 }
}

fn planned(recipes: &Recipes, numbers: &[u8]) -> (tempfile::TempDir, Project, Look, Plan) {
    let (folder, project) = project(recipes);
    let case = case(recipes, numbers);
    let look = look(&project, &case, false);
    let plan = plan_of(&project, &case, &look);
    (folder, project, look, plan)
}

fn position(host: &HostPlan, project: &Project, step: forge::graph::StepIndex) -> Option<usize> {
    let id = project.graph.step_id(step);
    host.steps.iter().position(|s| s.id.recipe == id.recipe && s.id.step == id.step)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn steps_follow_their_dependencies(recipes in recipes(), numbers in answers()) {
        let (_folder, project, _, plan) = planned(&recipes, &numbers);
        for (host, edge) in plan.hosts.iter().flat_map(|h| project.graph.edges().iter().map(move |e| (h, e))) {
            if let (Some(from), Some(to)) = (position(host, &project, edge.from), position(host, &project, edge.to)) {
                prop_assert!(from < to);
            }
        }
    }

    #[test]
    fn converged_hosts_have_no_changes(recipes in recipes()) {
        let (_folder, _, _, plan) = planned(&recipes, &[0]);
        prop_assert!(plan.hosts.iter().all(|host| !host.has_changes() && host.steps.iter().all(|s| s.verdict == StepVerdict::Ok)));
        prop_assert_eq!(plan.exit_code(true).code(), 0);
    }

    #[test]
    fn only_changes_run_and_none_after_a_stopped_step(recipes in recipes(), numbers in answers()) {
        let (_folder, project, look, plan) = planned(&recipes, &numbers);
        for host in &plan.hosts {
            for step in &host.steps {
                prop_assert!(!step.will_run() || step.verdict == StepVerdict::Change);
                prop_assert!(step.envelope.is_none() || step.verdict == StepVerdict::Change);
                prop_assert!(step.waits_for.is_none() || !step.verdict.is_settled());
            }
            // Steps of a recipe run in the order written: after a step that is stuck, none acts.
            let steps: Vec<_> = host.steps.iter().collect();
            for steps in steps.chunk_by(|a, b| a.id.recipe == b.id.recipe) {
                let stuck = steps.iter().position(|s| {
                    s.waits_for.is_some() || matches!(s.verdict, StepVerdict::Unknown | StepVerdict::Blocked(_))
                });
                prop_assert!(stuck.is_none_or(|at| steps[at..].iter().all(|s| !s.will_run())));
            }
            for step in host.steps.iter().filter(|step| step.scope == StepScope::One) {
                let index = project.graph.find_step(&step.id.recipe, &step.id.step).unwrap();
                prop_assert!(look.chosen[&index].contains(&host.host));
            }
        }
    }

    #[test]
    fn planning_twice_gives_the_same_plan(recipes in recipes(), numbers in answers()) {
        let (_folder, project, look, plan) = planned(&recipes, &numbers);
        let again = plan_of(&project, &case(&recipes, &numbers), &look);
        prop_assert_eq!(&again.id, &plan.id);
        let back: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        prop_assert_eq!(back, plan);
    }
}
