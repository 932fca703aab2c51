//! Plans without hosts: projects in `tests/scenarios`, the answers of their hosts, and the exact text of the resulting
//! plan. `FORGE_BLESS=1` writes the plans of the run; review them before you commit them.
//!
//! A case is `NAME.json` next to an inventory: `hosts` maps hosts to answers or to `"unreachable"`, `all` has the
//! answers of every host, `step` and `skip` filter, `verbose` shows more. The key of an answer is the probe: `path
//! /etc/motd`, `package nginx`, `unit nginx.service`, `user x`, `fact os`, `record recipe/step`, and `sh SCRIPT` for
//! commands; `account` is the user that forge acts as, if it is not root; `guard` is the guard of an earlier run.

#![allow(missing_docs, reason = "a test is not a library")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests may start programs, and a panic fails the test"
)]

#[path = "scenarios/card_scripts.rs"]
mod card_scripts;
#[path = "scenarios/dashboard.rs"]
mod dashboard;
#[path = "scenarios/host.rs"]
mod host;
#[path = "scenarios/many.rs"]
mod many;
#[path = "scenarios/pod_scripts.rs"]
mod pod_scripts;
#[path = "scenarios/props.rs"]
mod props;
#[path = "scenarios/recipes.rs"]
mod recipes;
#[path = "scenarios/roce_script.rs"]
mod roce_script;
#[path = "scenarios/script_host.rs"]
mod script_host;
#[path = "scenarios/script_runs.rs"]
mod script_runs;
#[path = "scenarios/speed.rs"]
mod speed;
#[path = "scenarios/tables.rs"]
mod tables;

use camino::{Utf8Path, Utf8PathBuf};
use forge::config::{self, ExportedValues, LoadOptions, Project, StepExpander, StepFilter};
use forge::diag::render_diag;
use forge::model::SecretStore;
use forge::plan::{self, ChosenHosts, ObservedHost, Plan, PlanContext, PlanPolicy};
use forge::view::{ResultWriter, TextWriter};
use serde_json::Value;

/// A case: the answers of hosts, and the options of the command line.
pub struct Case {
    pub answers: Value,
    pub filter: StepFilter,
    pub verbose: u8,
}

/// All inputs of a plan.
pub struct Look {
    pub seen: Vec<ObservedHost>,
    pub chosen: ChosenHosts,
    pub exports: ExportedValues,
    pub secrets: SecretStore,
}

fn env(name: &str) -> Option<String> {
    (name == "FORGE_TEST_SECRET").then(|| "hunter2!".to_owned())
}

pub fn load(inventory: &Utf8Path) -> Project {
    let (project, diags, sources) = config::load_project(
        inventory,
        &LoadOptions { trust: false, embedded: &[], env: &env, programs: forge::config::SecretPrograms::Skip },
    );
    let said: Vec<String> = diags.0.iter().map(|diag| render_diag(diag, &sources, false)).collect();
    project.unwrap_or_else(|| panic!("{}", said.join("\n")))
}

/// Observes like the engine: first facts and probes that need no facts, then the rest, then probes that need exported
/// values of other hosts.
pub fn look(project: &Project, case: &Case, backwards: bool) -> Look {
    let expander = StepExpander::new(project);
    let mut look = Look {
        seen: host::first_look(project, &case.answers),
        chosen: ChosenHosts::new(),
        exports: ExportedValues::new(),
        secrets: project.secrets.clone(),
    };
    if backwards {
        look.seen.reverse();
    }
    let mut published = plan::HostExports::default();
    for _ in 0..2 {
        let (exports, chosen, secrets) = (look.exports.clone(), look.chosen.clone(), look.secrets.clone());
        let ground = |chosen| PlanContext {
            project,
            expander: &expander,
            filter: &case.filter,
            exports: &exports,
            chosen,
            secrets: &secrets,
            policy: PlanPolicy::default(),
        };
        look.seen.iter_mut().for_each(|seen| host::look(ground(&chosen), seen, &case.answers));
        let none_chosen = ChosenHosts::new();
        look.chosen = plan::choose_hosts(ground(&none_chosen), &look.seen);
        let (ground, others) = (ground(&look.chosen), plan::OtherHosts::Unknown);
        published = plan::read_exported_values(ground, &look.seen, others, &mut look.secrets);
        look.exports = published.to_exports();
    }
    let (exports, secrets) = (look.exports.clone(), look.secrets.clone());
    let ground = PlanContext {
        project,
        expander: &expander,
        filter: &case.filter,
        exports: &exports,
        chosen: &look.chosen,
        secrets: &secrets,
        policy: PlanPolicy::default(),
    };
    plan::withdraw_changing_exports(ground, &look.seen, &mut published);
    look.exports = published.to_exports();
    look
}

pub fn plan_of(project: &Project, case: &Case, look: &Look) -> Plan {
    plan::plan(&plan::PlanInputs {
        project,
        filter: &case.filter,
        seen: &look.seen,
        exports: &look.exports,
        chosen: &look.chosen,
        secrets: &look.secrets,
        policy: PlanPolicy::default(),
    })
}

fn make(project: &Project, case: &Case) -> Plan {
    plan_of(project, case, &look(project, case, false))
}

/// Returns the plan's text without colors, and its exit codes.
fn shown(plan: &Plan, verbose: u8, root: &Utf8Path) -> String {
    let mut out = Vec::new();
    let text = TextWriter { verbose, target: None, resume: None };
    text.write_plan(plan, plan.exit_code(false), &mut out).unwrap();
    let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
    let codes = [false, true].map(|detailed| plan.exit_code(detailed).code());
    format!("{text}exit: {}, detailed {}\n", codes[0], codes[1]).replace(&format!("{root}/"), "")
}

fn read(path: &Utf8Path) -> Case {
    let text = std::fs::read_to_string(path).unwrap();
    let mut written: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    Case {
        filter: StepFilter::new(&list(&written["step"]), &list(&written["skip"])),
        verbose: written["verbose"].as_u64().unwrap_or(0) as u8,
        answers: written.take(),
    }
}

/// Returns the inventory folder and the file of every case.
fn cases() -> Vec<(Utf8PathBuf, Utf8PathBuf)> {
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = |folder: &Utf8Path| -> Vec<Utf8PathBuf> {
        let mut found: Vec<_> = folder.read_dir_utf8().unwrap().map(|e| e.unwrap().into_path()).collect();
        found.sort();
        found
    };
    let folders = entries(&root).into_iter().filter(|path| path.is_dir());
    let json = |path: &Utf8PathBuf| path.extension() == Some("json");
    folders.flat_map(|folder| entries(&folder).into_iter().filter(json).map(move |c| (folder.clone(), c))).collect()
}

#[test]
fn plans_match_the_expected_files() {
    let bless = std::env::var_os("FORGE_BLESS").is_some();
    let mut wrong = Vec::new();
    for (folder, path) in cases() {
        let case = read(&path);
        let plan = make(&load(&folder.join("inventory.yaml")), &case);
        let text = shown(&plan, case.verbose, &folder);
        let expected = path.with_extension("txt");
        if bless {
            std::fs::write(&expected, &text).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("{path} gave:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn planning_is_deterministic_and_hides_secrets() {
    for (folder, path) in cases() {
        let (project, case) = (load(&folder.join("inventory.yaml")), read(&path));
        let (first, second) = (make(&project, &case), make(&project, &case));
        assert_eq!(first.id, second.id, "{path}");
        let text = serde_json::to_string(&first).unwrap();
        assert!(!text.contains("hunter2"), "{path} contains a secret");
        assert_eq!(
            serde_json::from_str::<Plan>(&text).unwrap(),
            first,
            "{path}: parsing the plan's JSON gives the same plan"
        );
    }
}

/// The plan of a host does not depend on the order in which hosts are observed. (The host chosen for a `one` step that
/// has not run yet does: those cases are skipped.)
#[test]
fn plan_does_not_depend_on_host_order() {
    for (folder, path) in cases() {
        let (project, case) = (load(&folder.join("inventory.yaml")), read(&path));
        let (forth, back) = (look(&project, &case, false), look(&project, &case, true));
        if forth.chosen != back.chosen {
            continue;
        }
        let mut backwards = plan_of(&project, &case, &back).hosts;
        backwards.reverse();
        assert_eq!(plan_of(&project, &case, &forth).hosts, backwards, "{path}");
    }
}
