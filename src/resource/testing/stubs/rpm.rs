//! Packages of dnf and rpm.

use super::*;

const QUIET: [&str; 4] = ["rpm", "dnf -q versionlock list", "stat", "find"];
const DNF: &str = "dnf -y -q --setopt=exit_on_lock=1";

/// dnf with the given versionlock list, which runs `code` for every other call.
fn dnf_stubs(locks: &str, code: &str, rpm: &'static str) -> CommandStubs {
    let code = format!("case $* in *'versionlock list') printf '{locks}' ;; *) {code} ;; esac");
    CommandStubs::new(&[("dnf", Box::leak(code.into_boxed_str())), ("rpm", rpm)])
}

fn missing_rpm() -> Value {
    json!({ "manager": "rpm", "status": "not-installed", "offers_unknown": "dnf was not asked" })
}

fn installed_rpm(held: bool) -> Value {
    let unknown = "dnf was not asked";
    json!({ "manager": "rpm", "status": "installed", "version": "1:1.0-1", "held": held, "offers_unknown": unknown })
}

#[test]
fn dnf_installs_exact_versions_in_one_transaction() {
    let stubs = dnf_stubs("", ":", "");
    let written = json!({ "names": ["nginx", "glibc.i686"], "version": "1:1.0-1" });
    let states = [("nginx", missing_rpm()), ("glibc.i686", missing_rpm())];
    let output = run_packages(&stubs, written, false, &states);
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{DNF} install -- nginx-1:1.0-1 glibc-1:1.0-1.i686")]);
}

/// A package with the same name prefix keeps its lock.
#[test]
fn versionlock_is_restored_even_if_dnf_fails() {
    let stubs = dnf_stubs("nginx-mod-0:3-1.*\\nnginx-1:1.0-1.*\\n", "case $* in *install*) exit 1 ;; esac", "");
    let states = [("nginx", missing_rpm()), ("mod", installed_rpm(false))];
    let output = run_packages(&stubs, json!({ "names": ["nginx", "mod"] }), false, &states);
    assert!(!output.status.success());
    assert_eq!(
        stubs.logged_calls(&QUIET),
        [
            format!("{DNF} versionlock delete nginx"),
            format!("{DNF} install -- nginx mod"),
            format!("{DNF} versionlock delete nginx"),
            format!("{DNF} versionlock add nginx"),
        ]
    );
}

#[test]
fn declared_hold_sets_or_deletes_the_versionlock() {
    let stubs = dnf_stubs("", ":", "");
    run_packages(&stubs, json!({ "name": "nginx", "hold": true }), false, &[("nginx", installed_rpm(false))]);
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{DNF} versionlock add nginx")]);
    let stubs = dnf_stubs("nginx-1:1.0-1.*\\n", ":", "");
    run_packages(&stubs, json!({ "name": "nginx", "hold": false }), false, &[("nginx", installed_rpm(true))]);
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{DNF} versionlock delete nginx")]);
}

/// origin: field, rpm 4.18
#[test]
fn dnf_removal_fails_if_it_would_remove_other_packages() {
    let test = "case $* in *--test*) printf 'error: Failed dependencies:\\n\\tnginx is needed by (installed) site-1.0-1.noarch\\n' >&2; exit 1 ;; esac";
    let stubs = dnf_stubs("", ":", test);
    let output = run_packages(&stubs, json!({ "name": "nginx" }), true, &[("nginx", installed_rpm(false))]);
    assert_eq!(
        stderr_text(&output),
        "forge: dnf would also remove site-1.0-1.noarch: declare their removal too, or keep nginx\n"
    );
    assert!(stubs.logged_calls(&QUIET).is_empty());
    let stubs = dnf_stubs("nginx-1:1.0-1.*\\n", ":", "");
    let output = run_packages(&stubs, json!({ "name": "nginx" }), true, &[("nginx", installed_rpm(false))]);
    assert!(output.status.success(), "{}", stderr_text(&output));
    let removed = format!("{DNF} --noautoremove remove -- nginx");
    assert_eq!(stubs.logged_calls(&QUIET), [format!("{DNF} versionlock delete nginx"), removed]);
}

/// dnf writes its pid to a file and exits with 200 if another dnf holds the lock.
#[test]
fn dnf_lock_holder_is_reported_and_busy_dnf_is_retried() {
    let stubs = dnf_stubs("", ":", "");
    let folder = stubs.dir.path().join("dnf-state");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("rpmdb_lock.pid"), format!("{}\n", std::process::id())).unwrap();
    let written = json!({ "name": "nginx", "lock_timeout": "2s" });
    let output = run_packages(&stubs, written, false, &[("nginx", missing_rpm())]);
    let text = stderr_text(&output);
    let me = format!("pid {} (", std::process::id());
    assert!(text.contains(&format!("forge: gave up after 2 s: the package manager's lock is held by {me}")), "{text}");
    assert!(stubs.logged_calls(&QUIET).is_empty());
    let busy = dnf_stubs("", "[ -e \"${0%/*}/n\" ] || { touch \"${0%/*}/n\"; exit 200; }", "");
    let output = run_packages(&busy, json!({ "name": "nginx" }), false, &[("nginx", missing_rpm())]);
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(busy.logged_calls(&QUIET).len(), 2, "tried again");
}

/// `%{EVR}` contains the epoch 0 if the file states it, and no epoch otherwise. origin: field, rpm 4.18
#[test]
fn rpm_version_mismatch_prevents_installation() {
    let stubs = |says: &'static str| dnf_stubs("", ":", says);
    let act = |stubs: &CommandStubs, version: &str| {
        let file = stubs.dir.path().join("a.rpm");
        std::fs::write(&file, "").unwrap();
        let written = json!({ "path": file.to_str(), "name": "nginx", "version": version });
        let package = json!({ "manager": "rpm", "status": "not-installed" });
        let info = json!({ "name": "nginx", "version": version, "installed": package });
        let answers = json!({ format!("package file {}", file.display()): info, "package nginx": package });
        stubs.run_observed("package_file", written, false, answers)
    };
    const ZERO: &str = "case $* in *EVR*) printf 'nginx 0:1.0-1' ;; esac";
    const NONE: &str = "case $* in *EVR*) printf 'nginx 1.0-1' ;; esac";
    const ONE: &str = "case $* in *EVR*) printf 'nginx 1:1.0-1' ;; esac";
    for (says, version) in
        [(ZERO, "0:1.0-1"), (ZERO, "1.0-1"), (ZERO, "1.0"), (NONE, "0:1.0-1"), (NONE, "1.0"), (ONE, "1:1.0")]
    {
        let stubs = stubs(says);
        let output = act(&stubs, version);
        assert!(output.status.success(), "{says} {version}: {}", stderr_text(&output));
        assert_eq!(stubs.logged_calls(&QUIET).len(), 1, "{says} {version}");
    }
    let other = stubs(ONE);
    let output = act(&other, "1.0");
    assert_eq!(
        stderr_text(&output),
        "forge: the file holds nginx 1:1.0-1, nginx 1.0 is declared: nothing was installed\n"
    );
    assert!(other.logged_calls(&QUIET).is_empty());
}
