//! The environment variables that forge passes to programs, seen by a program that is started in place of ssh.

use super::support::Place;

const INVENTORY: &str = "cluster: lab
connect: { user: admin, sudo: { password: { env: ADMIN_PASSWORD } } }
hosts: { a: { address: 192.0.2.1 } }
apply: []
";

/// Writes its environment to a file, and opens no connection.
const SSH: &str = "#!/bin/sh\nenv >>\"$HOME/seen\"\necho 'Connection refused' >&2\nexit 255\n";

#[test]
fn ssh_receives_only_allowed_environment_variables() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new().file("inventory.yaml", INVENTORY).file("bin/ssh", SSH);
    let (home, ssh) = (place.path().to_str().unwrap().to_owned(), place.path().join("bin/ssh"));
    std::fs::set_permissions(ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let place = place
        .env("PATH", &format!("{home}/bin:/usr/bin:/bin"))
        .env("HOME", &home)
        .env("XDG_RUNTIME_DIR", &home)
        .env("SSH_AUTH_SOCK", "/agent")
        .env("ADMIN_PASSWORD", "correct horse")
        .env("DATABASE_URL", "of somebody else")
        .env("TEAM_NAME", "blue")
        .env("FORGE_SSH_ENV", "OTHER TEAM_*");
    let said = place.forge(&["facts", "inventory.yaml"]);
    assert!(said.starts_with("exit 4\n"), "{said}");
    let seen = place.read("seen");
    for given in ["SSH_AUTH_SOCK=/agent", "TEAM_NAME=blue", "PATH="] {
        assert!(seen.lines().any(|line| line.starts_with(given)), "{given}: {seen}");
    }
    for kept in ["ADMIN_PASSWORD", "correct horse", "DATABASE_URL", "FORGE_SSH_ENV"] {
        assert!(!seen.contains(kept), "{kept}: {seen}");
    }
}
