//! Package files and waits.

use super::*;

const DEB: &str = "!<arch>\ndebian-binary   and so on";
const SAYS: &str = "case $* in -W*) printf 'nginx 1.0' ;; esac";

/// Runs the change to version 1.0 from the observed state `package`.
fn run_package_file_action(stubs: &CommandStubs, package: Value) -> Output {
    let written = json!({ "source": DEB, "name": "nginx", "version": "1.0", "allow_downgrade": true });
    stubs.run_observed("package_file", written, false, json!({ "package nginx": package }))
}

fn deb_stubs(says: &'static str) -> CommandStubs {
    CommandStubs::new(&[
        ("apt-get", "for f; do :; done; cat \"$f\""),
        ("apt-mark", ""),
        ("dpkg-query", FINISHED),
        ("dpkg", ""),
        ("dpkg-deb", says),
    ])
}

#[test]
fn local_package_file_is_copied_and_deleted_after_install() {
    let stubs = deb_stubs(SAYS);
    let output = run_package_file_action(&stubs, missing_package());
    assert!(output.status.success(), "{}", stderr_text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), DEB, "what apt was given");
    let calls = stubs.logged_calls(&["dpkg-query", "dpkg-deb", "dpkg --compare"]);
    let path = calls[0].strip_prefix(&format!("{APT} install --no-remove -- ")).expect("one call of apt");
    assert!(path.starts_with("/var/tmp/forge-package."), "{path}");
    assert!(!std::path::Path::new(path).exists());
}

#[test]
fn package_file_downgrade_allows_apt_downgrades() {
    let stubs = deb_stubs(SAYS);
    run_package_file_action(&stubs, installed_package("1.1"));
    assert!(stubs.logged_calls(&["dpkg"])[0].contains(" install --no-remove --allow-downgrades -- /var/tmp/"));
}

#[test]
fn file_with_another_package_is_not_installed() {
    let stubs = deb_stubs("case $* in -W*) printf 'other 1.0' ;; esac");
    let output = run_package_file_action(&stubs, missing_package());
    assert_eq!(stderr_text(&output), "forge: the file holds other 1.0, nginx 1.0 is declared: nothing was installed\n");
    assert!(stubs.logged_calls(&["dpkg"]).is_empty());
}

#[test]
fn checksum_mismatch_prevents_installation() {
    let stubs = deb_stubs(SAYS);
    let file = stubs.dir.path().join("a.deb");
    std::fs::write(&file, DEB).unwrap();
    let written = json!({ "path": file.to_str(), "sha256": "0".repeat(64) });
    // The file had the declared digest when it was observed.
    let answers = json!({
        format!("package file {}", file.display()): { "name": "nginx", "version": "1.0", "installed": missing_package() },
        format!("path {}", file.display()): { "sha256": "0".repeat(64) },
    });
    let output = stubs.run_observed("package_file", written, false, answers);
    assert!(
        stderr_text(&output).contains(&format!("declared is {}: nothing was installed", "0".repeat(64))),
        "{}",
        stderr_text(&output)
    );
    assert!(stubs.logged_calls(&["dpkg"]).is_empty());
}

#[test]
fn wait_succeeds_when_met_and_reports_state_on_timeout() {
    let stubs = CommandStubs::new(&[]);
    let ready = stubs.dir.path().join("ready");
    let answers = json!({ format!("path {}", ready.display()): "absent" });
    let wait = |written: Value, answers: &Value| stubs.run_observed("wait_for", written, false, answers.clone());
    let output = wait(json!({ "path": ready.to_str(), "timeout": "1s", "interval": "1s" }), &answers);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr_text(&output);
    assert!(
        text.starts_with("forge: gave up after ") && text.ends_with(&format!("{} does not exist\n", ready.display())),
        "{text}"
    );
    std::fs::write(&ready, "").unwrap();
    assert!(wait(json!({ "path": ready.to_str(), "timeout": "1s" }), &answers).status.success());
    let command = json!({ "command": "echo first; echo 'not \"yet\"'; exit 3", "timeout": "1s", "interval": "1s" });
    let output = wait(command, &json!({ "command": { "status": 3 } }));
    assert!(stderr_text(&output).ends_with(" s: the command exited with 3: not \"yet\"\n"), "{}", stderr_text(&output));
}

/// A port of the test process is open until the listener is dropped.
#[test]
fn wait_for_port_succeeds_only_if_open() {
    let stubs = CommandStubs::new(&[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let written = json!({ "port": port, "timeout": "1s", "interval": "1s" });
    let wait = || stubs.run_observed("wait_for", written.clone(), false, json!({ "port": { "status": 1 } }));
    assert!(wait().status.success());
    drop(listener);
    let text = stderr_text(&wait());
    assert!(text.ends_with(&format!(" s: port {port} of 127.0.0.1 is not open: Connection refused\n")), "{text}");
}

#[test]
fn wait_for_unit_succeeds_only_if_active() {
    let answers = json!({ "unit nginx.service": { "load": "loaded", "active": "inactive" } });
    let written = json!({ "unit": "nginx", "timeout": "1s", "interval": "1s" });
    let stubs = CommandStubs::new(&[("systemctl", "echo activating")]);
    let output = stubs.run_observed("wait_for", written.clone(), false, answers.clone());
    assert!(stderr_text(&output).ends_with(" s: nginx.service is activating\n"), "{}", stderr_text(&output));
    let stubs = CommandStubs::new(&[("systemctl", "echo active")]);
    assert!(stubs.run_observed("wait_for", written, false, answers).status.success());
}
