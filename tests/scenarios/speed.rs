//! How long planning takes, and how much memory: `cargo test --test scenarios -- --ignored --nocapture plans_of`.
//! `FORGE_HOSTS` sets the number of hosts.

#![allow(clippy::print_stdout, reason = "a measurement is printed")]

use super::{Case, load, look, plan_of};
use camino::Utf8Path;
use forge::config::StepFilter;
use serde_json::json;
use std::time::Instant;

const RECIPES: usize = 8;
const STEPS: usize = 5;

fn recipe(at: usize) -> String {
    let mut text = format!("recipe: r{at}\nsummary: Made up\n");
    if at > 0 {
        text += &format!("needs: [r{}]\n", at - 1);
    }
    text += "rules:\n  - { require: 'facts.cpu.architecture == \"x86_64\"', else: x86_64 only }\nsteps:\n";
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

/// Returns the peak of resident memory of this process. MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn measure(hosts: usize, barrier: bool) {
    let folder = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(folder.path()).unwrap();
    std::fs::create_dir(root.join("recipes")).unwrap();
    let mut inventory = format!("cluster: made\nhosts:\n  h[1:{hosts}]:\napply:\n");
    for at in 0..RECIPES {
        inventory += &format!("  - {{ recipe: r{at}, on: all }}\n");
        let text = recipe(at);
        let text =
            if barrier { text.replace("needs: [r0]", "needs: { r0: { of: selected, least: 90% } }") } else { text };
        std::fs::write(root.join(format!("recipes/r{at}.yaml")), text).unwrap();
    }
    std::fs::write(root.join("inventory.yaml"), inventory).unwrap();
    let began = Instant::now();
    let project = load(&root.join("inventory.yaml"));
    let loaded = began.elapsed();
    let own: serde_json::Map<_, _> = project
        .hosts
        .keys()
        .enumerate()
        .map(|(at, host)| (host.to_string(), json!({ "sh check-3": { "status": usize::from(at % 10 == 0) } })))
        .collect();
    let all = json!({
        "fact cpu": { "architecture": "x86_64" }, "fact os": { "id": "debian" },
        "path /etc": { "kind": "directory", "mode": "0755" },
    });
    let case = Case { answers: json!({ "all": all, "hosts": own }), filter: StepFilter::default(), verbose: 0 };
    let seen = look(&project, &case, false);
    let before = peak();
    let began = Instant::now();
    let plan = plan_of(&project, &case, &seen);
    let took = began.elapsed();
    println!(
        "{hosts} hosts × {} steps{}: load {loaded:.2?}, plan {took:.2?}, peak {before} → {} MiB, {} changes",
        RECIPES * STEPS,
        if barrier { " with a barrier" } else { "" },
        peak(),
        plan.counts().change,
    );
}

#[test]
#[ignore = "a measurement; prints time and memory"]
fn plans_of_many_hosts() {
    let hosts = std::env::var("FORGE_HOSTS").ok().and_then(|hosts| hosts.parse().ok()).unwrap_or(1000);
    measure(hosts / 10, false);
    measure(hosts, false);
    measure(hosts, true);
}
