//! Runs with workers in which hosts read values that hosts of other workers export.

use super::super::Event;
use super::super::shards::WorkerMessage;
use super::across::FIRST;
use super::simulated_project::SimulatedProject;
use super::worker_project::{WorkerSetup, count_open_windows, run_with_workers};
use crate::model::HostOutcome;
use std::sync::Arc;

/// Exports the content of a file that it writes.
fn write_exporter(content: &str) -> String {
    format!(
        "steps:
  - name: key
    command: {{ check: 'test \"$(cat @root/key)\" = {content}', apply: 'echo {content} > @root/key' }}
    export: {{ key: {{ read: 'cat @root/key' }} }}
"
    )
}

/// Writes the values of all hosts.
const READER: &str = "steps:
  - name: all
    file: { path: '@root/all', content: \"{% for host, key in exports['maker'].key | items %}{{ host }}={{ key }} {% endfor %}\", @own }
";

fn export_project(apply: &str, content: &str) -> Arc<SimulatedProject> {
    Arc::new(SimulatedProject::new(3, apply, &[("maker", &write_exporter(content)), ("reader", READER)]))
}

const MAKER_AND_READER: &str = "apply:\n  - { recipe: maker, on: all }\n  - { recipe: reader, on: all }\n";

/// What one process writes is written by workers, at the first run, without changes, and after a change of a value.
#[test]
fn values_of_hosts_of_other_workers_are_read() {
    for setup in [|| WorkerSetup::per_host(), || WorkerSetup::new(1, 1), || WorkerSetup::new(1, 2)] {
        let stage = export_project(MAKER_AND_READER, "k");
        let ran = run_with_workers(&stage, setup());
        assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
        assert_eq!(["n1", "n3"].map(|host| stage.read_file(host, "all")), ["n1=k n2=k n3=k "; 2]);
        let again = run_with_workers(&stage, setup());
        assert_eq!((again.exit_code(), again.plan.count_steps().change), (0, 0), "{:#?}", again.report);
        stage.write_recipe("maker", &write_exporter("{{ host.name }}"));
        let changed = run_with_workers(&stage, setup());
        assert_eq!(changed.exit_code(), 0, "{:#?}", changed.report);
        assert_eq!(["n1", "n3"].map(|host| stage.read_file(host, "all")), ["n1=n1 n2=n2 n3=n3 "; 2]);
    }
}

/// The host has the value that its step did not replace.
#[test]
fn value_of_a_step_that_fails_on_another_worker_is_read_as_before() {
    let stage = export_project(MAKER_AND_READER, "k");
    assert_eq!(run_with_workers(&stage, WorkerSetup::per_host()).exit_code(), 0);
    stage.write_recipe("maker", &write_exporter("new").replace("apply: '", "apply: 'test ! -e @root/bad && "));
    stage.create_host_file("n1", "bad");
    let ran = run_with_workers(&stage, WorkerSetup::per_host());
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Failed);
    assert_eq!(stage.read_file("n2", "all"), "n1=k n2=new n3=new ", "{:#?}", ran.report);
}

/// X reads a value of A, whose wave begins only after that of Z: A starts early, and Z opens its window first.
#[test]
fn awaited_host_of_a_later_wave_does_not_block_the_wave_before() {
    let maker = "steps:
  - name: key
    command: { check: 'test -e @root/key', apply: 'echo k > @root/key' }
    export: { key: { read: 'cat @root/key' } }
  - name: big
    disruption: D2
    command: { check: 'test -e @root/big', apply: 'touch @root/big' }
    export: { late: { read: 'cat @root/big' } }
";
    let reader = "steps:\n  - { name: all, file: { path: '@root/all', content: \"{{ exports['maker'].late['n3'] }}x\", @own } }\n";
    let apply = "rollout: { max_unavailable: 1 }\napply:\n  - { recipe: reader, on: n1 }\n  - { recipe: maker, on: [n2, n3] }\n";
    for setup in [WorkerSetup::new(1, 1), WorkerSetup::new(1, 2), WorkerSetup::per_host()] {
        let stage = Arc::new(SimulatedProject::new(3, apply, &[("maker", maker), ("reader", reader)]));
        let ran = run_with_workers(&stage, setup);
        let waves: Vec<usize> = ran.plan.rollout.waves.iter().map(Vec::len).collect();
        assert_eq!((waves, ran.exit_code()), (vec![1, 1], 0), "{:#?}", ran.report);
        assert_eq!(count_open_windows(&ran.events), 1);
    }
}

/// Nothing changes on n1, but what it declares has changed with a value of n2.
#[test]
fn unchanged_reader_of_a_value_that_changed_on_a_worker_is_stale() {
    let maker = "steps:
  - name: before
    command: { check: 'test -e @root/new', apply: 'touch @root/new; echo new > @root/key' }
  - name: key
    command: { check: 'test -e @root/key', apply: 'echo k > @root/key' }
    export: { key: { read: 'cat @root/key' } }
";
    let apply = "apply:\n  - { recipe: maker, on: n2 }\n  - { recipe: reader, on: n1 }\n";
    let mut said = Vec::new();
    for with_workers in [false, true] {
        let stage = Arc::new(SimulatedProject::new(2, apply, &[("maker", maker), ("reader", READER)]));
        assert_eq!(stage.run_once().exit_code(), 0);
        stage.write_host_file("n2", "key", "k\n");
        stage.run_once();
        std::fs::remove_file(stage.host_root("n2").join("new")).unwrap();
        let ran = match with_workers {
            true => run_with_workers(&stage, WorkerSetup::per_host()),
            false => stage.run_once(),
        };
        said.push((ran.exit_code(), ran.describe_step("n1", "reader/all")));
    }
    assert_eq!(said[0], said[1]);
}

/// The value contains a secret of the inventory: it is in no task, order, message or report.
#[test]
fn exported_secret_is_not_passed_on() {
    let maker = "params: { token: { type: secret } }
steps:
  - name: key
    command: { check: 'test -e @root/key', apply: 'cat @root/token > @root/key' }
    export: { key: { read: 'cat @root/key', partial: true } }
";
    let apply =
        "apply:\n  - { recipe: maker, on: n1, with: { token: { file: token } } }\n  - { recipe: reader, on: n2 }\n";
    let stage = Arc::new(SimulatedProject::new(2, apply, &[("maker", maker), ("reader", READER)]));
    stage.write_input_file("token", "tr0ub4dor-and-3");
    stage.write_host_file("n1", "token", "x tr0ub4dor-and-3");
    let seen = Arc::new(std::sync::Mutex::new(String::new()));
    let said = seen.clone();
    let setup = WorkerSetup::per_host().with_kills(move |_, message| {
        said.lock().unwrap().push_str(&serde_json::to_string(message).unwrap());
        false
    });
    let ran = run_with_workers(&stage, setup);
    assert!(stage.has_file("n1", "key"), "{:#?}", ran.report);
    let told = ran.describe_step("n2", "reader/all");
    assert!(told.contains("it contains a secret, which is not passed on: n1"), "{told}");
    assert!(!stage.has_file("n2", "all"));
    let text = seen.lock().unwrap().clone();
    assert!(text.contains("values_exported") && !text.contains("tr0ub4dor"), "{text}");
    let store = std::process::Command::new("grep").args(["-rl", "tr0ub4dor", stage.store_root().as_str()]).output();
    assert_eq!(String::from_utf8(store.unwrap().stdout).unwrap(), "");
}

/// The key contains a secret before the run: the recording that the plan is made from leaves it out. No host gets a masked
/// value, or goes on without the host.
#[test]
fn secret_that_was_exported_before_the_run_is_not_passed_on_masked() {
    let maker = "params: { token: { type: secret } }
steps:
  - name: key
    command: { check: 'test -e @root/key', apply: 'cat @root/token > @root/key' }
    export: { key: { read: 'cat @root/key', partial: true } }
";
    let other = "steps:\n  - { name: file, command: { check: 'test -e @root/other', apply: 'touch @root/other' } }\n";
    let with = "with: { token: { file: token } }";
    let apply = format!(
        "apply:\n  - {{ recipe: maker, on: n1, {with} }}\n  - {{ recipe: reader, on: n2 }}\n  - {{ recipe: other, on: all }}\n"
    );
    for is_unchanged in [true, false] {
        let stage =
            Arc::new(SimulatedProject::new(2, &apply, &[("maker", maker), ("reader", READER), ("other", other)]));
        stage.write_input_file("token", "tr0ub4dor-and-3");
        stage.write_host_file("n1", "key", "x tr0ub4dor-and-3");
        if is_unchanged {
            stage.create_host_file("n1", "other");
        }
        let ran = run_with_workers(&stage, WorkerSetup::per_host());
        let told = ran.describe_step("n2", "reader/all");
        assert!(told.contains("it contains a secret, which is not passed on: n1"), "{is_unchanged}: {told}");
        assert!(!stage.has_file("n2", "all") && stage.has_file("n2", "other"));
    }
}

/// Two makers with an old value, and a host that reads both.
fn changed_makers() -> Arc<SimulatedProject> {
    let stage = export_project("apply:\n  - { recipe: maker, on: [n1, n2] }\n  - { recipe: reader, on: n3 }\n", "k");
    assert_eq!(run_with_workers(&stage, WorkerSetup::per_host()).exit_code(), 0);
    assert_eq!(stage.read_file("n3", "all"), "n1=k n2=k ");
    stage.write_recipe("maker", &write_exporter("new"));
    stage
}

fn is_key_started(message: &WorkerMessage, name: &str) -> bool {
    matches!(message, WorkerMessage::Event { event: Event::StepStarted { host, step, .. } }
        if host.as_str() == name && &*step.recipe == "maker")
}

/// The second worker makes the value, or finds that it is made.
#[test]
fn value_of_a_maker_whose_worker_died_comes_from_its_replacement() {
    for is_made in [false, true] {
        for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1), WorkerSetup::new(2, 2)] {
            let stage = changed_makers();
            let host = stage.clone();
            let setup = setup.with_kills(move |worker, message| {
                let dies = worker == 1 && is_key_started(message, "n1");
                if dies && is_made {
                    host.write_host_file("n1", "key", "new\n");
                }
                dies
            });
            let ran = run_with_workers(&stage, setup);
            assert_eq!(
                (ran.exit_code(), stage.read_file("n3", "all").as_str()),
                (0, "n1=new n2=new "),
                "{:#?}",
                ran.report
            );
        }
    }
}

/// The second worker does not reach the maker, or dies too: whether the value before is still there, nothing tells.
#[test]
fn value_of_a_maker_that_nothing_hears_of_is_missing() {
    for is_refused in [true, false] {
        let stage = changed_makers();
        let host = stage.clone();
        // The fourth worker replaces the one of n1.
        let setup = WorkerSetup::per_host().with_kills(move |worker, message| {
            let dies = worker <= 3 && is_key_started(message, "n1");
            if dies && is_refused {
                host.create_host_file("n1", ".sim/refuse");
            }
            dies || worker == 4 && !is_refused
        });
        let ran = run_with_workers(&stage, setup);
        let told = ran.describe_step("n3", "reader/all");
        assert!(told.contains("no answer: n1"), "{is_refused}: {told}");
        assert_eq!(stage.read_file("n3", "all"), "n1=k n2=k ", "unchanged");
    }
}

/// Maker and reader have the same worker, whose replacement does not reach the maker.
#[test]
fn value_of_a_host_that_the_replacement_does_not_reach_is_missing() {
    let stage = changed_makers();
    let host = stage.clone();
    let setup = WorkerSetup::new(1, 8).with_kills(move |worker, message| {
        let dies = worker == 1 && is_key_started(message, "n1");
        if dies {
            host.create_host_file("n1", ".sim/refuse");
        }
        dies
    });
    let ran = run_with_workers(&stage, setup);
    let told = ran.describe_step("n3", "reader/all");
    assert!(told.contains("no answer: n1"), "{told}");
    assert_eq!(stage.read_file("n3", "all"), "n1=k n2=k ", "unchanged");
}

/// The report of the first worker is stored, but the coordinator has read no value.
#[test]
fn value_that_was_lost_with_its_worker_is_missing() {
    for setup in [WorkerSetup::new(1, 1), WorkerSetup::per_host()] {
        let stage = changed_makers();
        let setup = WorkerSetup { deaf_to_news: true, ..setup }
            .with_kills(|worker, message| worker == 1 && matches!(message, WorkerMessage::HostDone { .. }));
        let ran = run_with_workers(&stage, setup);
        assert_eq!(ran.host_outcome("n1"), HostOutcome::Changed, "{:#?}", ran.report);
        let told = ran.describe_step("n3", "reader/all");
        assert!(told.contains("no answer: n1"), "{told}");
        assert_eq!(stage.read_file("n3", "all"), "n1=k n2=k ", "unchanged");
    }
}

/// The maker runs behind a barrier and leaves the value as it is; its host then waits for the file of the reader. The
/// reader does not wait for the end of that host, and does not begin before the maker ran.
#[test]
fn unchanged_value_is_told_when_its_step_is_done() {
    let maker = |mark: &str| {
        format!(
            "needs: {{ first: {{ of: selected, least: 100% }} }}
steps:
  - name: key
    command: {{ check: 'test -e @root/{mark}', apply: 'echo k > @root/key; sleep 0.2; touch @root/{mark}' }}
    export: {{ key: {{ read: 'cat @root/key' }} }}
  - name: slow
    command:
      check: test -e @root/slow-{mark}
      apply: for try in $(seq 200); do test -e @root/../n3/{mark} && exec touch @root/slow-{mark}; sleep 0.05; done; false
"
        )
    };
    let reader = |mark: &str| {
        format!(
            "steps:
  - name: all
    command:
      check: test -e @root/{mark}
      apply: \"test -e @root/../n1/{mark} && echo '{{{{ exports['maker'].key['n1'] }}}}' > @root/{mark}\"
"
        )
    };
    let apply =
        "apply:\n  - { recipe: first, on: all }\n  - { recipe: maker, on: n1 }\n  - { recipe: reader, on: n3 }\n";
    for setup in [|| WorkerSetup::per_host(), || WorkerSetup::new(2, 1), || WorkerSetup::new(1, 2)] {
        let recipes = [("first", FIRST), ("maker", &*maker("a")), ("reader", &*reader("a"))];
        let stage = Arc::new(SimulatedProject::new(3, apply, &recipes));
        assert_eq!(run_with_workers(&stage, setup()).exit_code(), 0);
        [("maker", maker("b")), ("reader", reader("b"))].iter().for_each(|(name, text)| stage.write_recipe(name, text));
        ["n1", "n2", "n3"].iter().for_each(|host| drop(std::fs::remove_file(stage.host_root(host).join("first"))));
        let ran = run_with_workers(&stage, setup());
        assert_eq!((ran.exit_code(), stage.read_file("n3", "b").as_str()), (0, "k\n"), "{:#?}", ran.report);
    }
}
