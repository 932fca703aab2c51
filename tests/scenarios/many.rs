//! A generated cluster of many hosts, and their answers.

use super::{Case, Look, load, look};
use camino::Utf8Path;
use forge::config::{Project, StepFilter};
use forge::facts::FactPool;
use forge::model::HostName;
use forge::probe::AnswerPool;
use serde_json::{Map, Value, json};

/// Steps of each recipe.
pub const STEPS: usize = 5;

/// Number of hosts that are observed together, because the input of their answers needs much memory.
const TOGETHER: usize = 500;

/// The state of the hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Everything matches the declaration.
    Same,
    /// One host in a hundred is bare, one in ten has two changes, the others match.
    Mixed,
    /// Everything changes everywhere.
    Bare,
    /// Like `Bare`, and each recipe waits for the previous one on 90 % of the hosts.
    Barrier,
    /// Like `HostBarrier`, and one host in fifty cannot be evaluated completely, so plans are made again with that result.
    Lossy,
}

fn recipe(at: usize, kind: Kind) -> String {
    let mut text = format!("recipe: r{at}\nsummary: Made up\n");
    if at > 0 {
        let before = at - 1;
        text += &match kind {
            Kind::Barrier | Kind::Lossy => format!("needs: {{ r{before}: {{ of: selected, least: 90% }} }}\n"),
            _ => format!("needs: [r{before}]\n"),
        };
    }
    text += "rules:\n  - { require: 'facts.kernel.arch == \"x86_64\"', else: x86_64 only }\nsteps:\n";
    for step in 0..STEPS {
        text += &format!("  - name: s{step}\n");
        text += &match step {
            0 => format!("    package: {{ name: p{at} }}\n"),
            1 => format!("    file: {{ path: /etc/x{at}, content: '{{{{ host.name }}}} {{{{ facts.os.id }}}}' }}\n"),
            2 => format!("    file: {{ path: /etc/y{at}, content: same }}\n"),
            3 => format!("    command: {{ check: check-{at}, apply: make-{at} }}\n"),
            _ => format!("    restart_on: [s1, s2]\n    service: {{ name: u{at} }}\n"),
        };
    }
    text + &format!("verify:\n  - {{ name: holds, check: verify-{at} }}\n")
}

/// Writes a project of `hosts` hosts with `recipes` recipes to `folder` and loads it.
pub fn project(folder: &Utf8Path, hosts: usize, recipes: usize, kind: Kind) -> Project {
    std::fs::create_dir(folder.join("recipes")).unwrap();
    let mut inventory = format!("cluster: made\nhosts:\n  h[1:{hosts}]:\napply:\n");
    for at in 0..recipes {
        inventory += &format!("  - {{ recipe: r{at}, on: all }}\n");
        std::fs::write(folder.join(format!("recipes/r{at}.yaml")), recipe(at, kind)).unwrap();
    }
    std::fs::write(folder.join("inventory.yaml"), inventory).unwrap();
    load(&folder.join("inventory.yaml"))
}

/// Returns the answers of a host that matches the declaration.
fn as_declared(host: &str, recipes: usize) -> Map<String, Value> {
    let unit = json!({
        "load": "loaded", "active": "active", "sub": "running", "file_state": "enabled", "main_pid": 7,
        "active_since": 2000.0, "main_started": 2000.0, "result": "success", "invocation": "aa",
    });
    let mut answers = Map::new();
    for at in 0..recipes {
        let package = json!({ "status": "installed", "version": "1.0", "candidate": "1.0", "available": ["1.0"] });
        answers.insert(format!("package p{at}"), package);
        answers.insert(format!("path /etc/x{at}"), json!({ "text": format!("{host} debian") }));
        answers.insert(format!("path /etc/y{at}"), json!({ "text": "same" }));
        answers.insert(format!("sh check-{at}"), json!({ "status": 0 }));
        answers.insert(format!("sh verify-{at}"), json!({ "status": 0 }));
        answers.insert(format!("unit u{at}.service"), unit.clone());
    }
    answers
}

fn answers(at: usize, host: &str, recipes: usize, kind: Kind) -> Value {
    let one_in = |count: usize| at.is_multiple_of(count);
    match kind {
        Kind::Lossy if one_in(50) => json!({ "sh check-0": { "unknown": "timed out" } }),
        Kind::Bare | Kind::Barrier | Kind::Lossy => json!({}),
        Kind::Mixed if one_in(100) => json!({}),
        Kind::Mixed if one_in(10) => {
            let mut answers = as_declared(host, recipes);
            answers.insert("path /etc/y0".to_owned(), json!({ "text": "other" }));
            answers.insert("sh check-0".to_owned(), json!({ "status": 1 }));
            Value::Object(answers)
        }
        Kind::Mixed | Kind::Same => Value::Object(as_declared(host, recipes)),
    }
}

/// Returns a case from the answers of single hosts, with the common answers added.
pub fn case(hosts: Value) -> Case {
    let all = json!({
        "fact kernel": { "arch": "x86_64" }, "fact os": { "id": "debian" },
        "path /etc": { "kind": "directory", "mode": "0755" },
    });
    Case { answers: json!({ "all": all, "hosts": hosts }), filter: StepFilter::default(), verbose: 0 }
}

/// Observes all hosts, [`TOGETHER`] at a time.
pub fn observed(project: &Project, recipes: usize, kind: Kind) -> Look {
    let hosts: Vec<_> = project.hosts.keys().enumerate().collect();
    let look = |hosts: &[(usize, &HostName)]| {
        let answers = |(at, host): &(usize, &HostName)| (host.to_string(), answers(*at, host.as_str(), recipes, kind));
        look(project, &case(Value::Object(hosts.iter().map(answers).collect())), false)
    };
    let (pool, facts) = (AnswerPool::default(), FactPool::default());
    let looks = hosts.chunks(TOGETHER).map(|hosts| {
        let mut some = look(hosts);
        // Like the engine.
        for seen in &mut some.seen {
            seen.observation.share_answers(&pool);
            seen.facts.0.share(&facts);
        }
        some
    });
    let all = looks.reduce(|mut all, some| {
        all.seen.extend(some.seen);
        all
    });
    all.unwrap()
}
