//! Completion in real shells: the scripts that forge prints, and their candidates.

use super::support::Place;
use std::process::Command;

const RECIPE: &str = "recipe: web\nsteps:\n  - { name: site, file: { path: /x, content: x } }\n  - name: reload now\n    \
                      file: { path: /y, content: y }\n";

fn place() -> Place {
    let inventory = "cluster: lab\nhosts:\n  gpu-[01:02]: {}\n  login: {}\ngroups: { rack_a: { hosts: [gpu-01] } }\n\
                     apply: [{ recipe: web, on: all }]\n";
    Place::new()
        .file("inventory.yaml", "cluster: other\nhosts: [elsewhere]\n")
        .file("cluster.yaml", inventory)
        .file("recipes/web.yaml", RECIPE)
        .file(".forge/lab/runs/20261121T093015-4f2a/journal.ndjson", "")
}

/// Runs code in a shell of this machine, with forge in its PATH.
fn shell(place: &Place, shell: &[&str], code: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_forge")).parent().unwrap();
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(code).current_dir(place.path()).env_clear();
    command
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", place.path())
        .env("LC_ALL", "C.UTF-8");
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", shell[0]));
    assert!(output.stderr.is_empty(), "{}: {}", shell[0], String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns bash's candidates for a line that it split into these words.
fn bash(place: &Place, words: &str) -> Vec<String> {
    let code = format!(
        "source <(forge completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _forge; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let told = shell(place, &["bash", "--norc", "-c"], &code);
    told.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_hosts_groups_steps_recipes_and_runs() {
    let place = place();
    for (words, expected) in [
        ("forge plan cluster.yaml --on ''", &["all", "rack_a", "gpu-01", "gpu-02", "login"][..]),
        ("forge plan -i cluster.yaml --on gpu", &["gpu-01", "gpu-02"]),
        ("forge plan --inventory = cluster.yaml --on = lo", &["login"]),
        ("forge plan cluster.yaml --on gpu-01 : lo", &["login"]),
        ("forge plan --on ''", &["all", "elsewhere"]),
        ("forge exec -i cluster.yaml rack", &["rack_a"]),
        ("forge apply cluster.yaml --step web/", &["web/site", "web/reload\\ now"]),
        ("forge apply cluster.yaml --skip we", &["web", "web/site", "web/reload\\ now"]),
        ("forge recipes -i cluster.yaml we", &["web"]),
        ("forge recipes nvidia-d", &["nvidia-driver"]),
        ("forge show 2026", &["20261121T093015-4f2a"]),
        ("forge runs --compare last 2026", &["20261121T093015-4f2a"]),
        ("forge explain -i cluster.yaml web/s", &["web/site"]),
        ("forge explain ssh_", &["ssh_authorized_key"]),
        ("forge schema inv", &["inventory"]),
        ("forge plan --form", &["--format"]),
        ("forge plan --format = js", &["json"]),
        ("forge comp", &["completions"]),
        ("forge completions --c", &["--color"]),
        ("forge plan -i nowhere.yaml --on ''", &[]),
        ("forge plan --no-such-flag ''", &[]),
    ] {
        assert_eq!(bash(&place, words), expected, "{words}");
    }
}

#[test]
fn zsh_and_fish_complete_the_same() {
    let place = place();
    let zsh = "compdef() { :; }; _files() { print files; }; compadd() { shift; print -rl -- \"$@\"; }\n\
               source <(forge completions zsh)\nwords=(forge apply cluster.yaml --step web/); CURRENT=5; _forge\n\
               words=(forge plan -i nowhere.yaml --on ''); CURRENT=6; _forge";
    assert_eq!(shell(&place, &["zsh", "-fc"], zsh), "web/site\nweb/reload now\nfiles\n");
    let fish =
        "forge completions fish | source; complete -C 'forge plan cluster.yaml --on gpu'; complete -C 'forge comp'";
    let told = shell(&place, &["fish", "--no-config", "-c"], fish);
    let words: Vec<&str> = told.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["gpu-01", "gpu-02", "completions"], "{told}");
}

#[test]
fn completion_is_safe_and_fast_on_hostile_inventories() {
    let hostile = "hosts: [\"a\\e]0;x\\a\", \"b$(id)\", \"c\\nd\"]\ngroups: []\nrecipes: [/etc, ../..]\napply: {";
    let place = Place::new().file("inventory.yaml", hostile).file("recipes/bad.yaml", "recipe: [");
    let told = place.forge(&["completions", "bash", "--complete", "3", "--", "forge", "plan", "--on", ""]);
    assert_eq!(told, "exit 0\n--- stdout\n--- stderr\n");
    let place = Place::new().file("inventory.yaml", hostile.strip_suffix("apply: {").unwrap());
    let told = place.forge(&["completions", "bash", "--complete", "3", "--", "forge", "plan", "--on", ""]);
    assert_eq!(told, "exit 0\n--- stdout\nall\nb\\$\\(id\\)\n--- stderr\n");
    let many: String = (0..90).map(|at| format!("  h{at}-[00000:99999]: {{}}\n")).collect();
    let place = Place::new().file("inventory.yaml", &format!("hosts:\n{many}"));
    let began = std::time::Instant::now();
    let told = place.forge(&["completions", "bash", "--complete", "3", "--", "forge", "plan", "--on", "h0-0000"]);
    assert!(told.starts_with("exit 0\n--- stdout\nh0-00000\n"), "{told}");
    // Nine million names are not enumerated: a prompt must not wait for them.
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}
