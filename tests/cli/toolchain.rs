//! The scripts that build forge check the toolchain first. If it is missing or too old, the error names it and says
//! where to get a newer one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const HINT: &str = "  hint: install a newer toolchain with rustup (https://rustup.rs) and open a new shell\n";

/// Runs a script of the repository with a `cargo` and a `rustc` that print these versions. Returns exit code and
/// stderr.
fn run(script: &str, cargo: &str, rustc: &str) -> String {
    let bin = tempfile::tempdir().unwrap();
    for (name, version) in [("cargo", cargo), ("rustc", rustc)] {
        let path = bin.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{name} {version}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", bin.path().display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(script);
    let out = Command::new(script).env_clear().env("PATH", path).env("HOME", bin.path()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap().replace(&bin.path().display().to_string(), "BIN");
    format!("exit {}\n{said}", out.status.code().unwrap())
}

#[test]
fn debian_rust_is_rejected_before_building() {
    for script in ["demo", "install", "package", "test"] {
        assert_eq!(
            run(script, "1.65.0", "1.65.0 (897e37553 2022-11-02) (built from a source tarball)"),
            format!("exit 1\n{script}: error: forge needs Rust 1.89 or newer; `BIN/cargo` is 1.65.0\n{HINT}")
        );
    }
}

#[test]
fn old_rustc_with_a_new_cargo_is_rejected() {
    assert_eq!(
        run("demo", "1.100.0 (0123456789 2026-01-01)", "1.88.0-nightly (6b00bc388 2025-06-23)"),
        format!("exit 1\ndemo: error: forge needs Rust 1.89 or newer; `BIN/rustc` is 1.88.0\n{HINT}")
    );
}

#[test]
fn broken_toolchain_error_includes_its_message() {
    assert_eq!(
        run("demo", "is not installed for the toolchain", "1.89.0"),
        format!("exit 1\ndemo: error: `cargo --version` failed: cargo is not installed for the toolchain\n{HINT}")
    );
}
