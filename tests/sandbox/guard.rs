//! Guarded changes on hosts without systemd. Files and processes of the hosts are the witness.

use super::as_everybody;
use super::host::Lab;

const GUARDED: &str = r#"
recipe: r
summary: Settings of the network
steps:
  - name: folder
    directory: { path: /etc/netplan }
  - name: settings
    file: { path: /etc/netplan/lab.yaml, content: "network: {}\n" }
"#;

fn inside(lab: &Lab, code: &str) -> String {
    lab.inside("inventory.yaml", "a", code)
}

/// A new session of a sandbox starts as the first one did, and confirms the change.
#[test]
fn guarded_change_is_confirmed_without_systemd() {
    as_everybody(|lab| {
        lab.file("recipes/r.yaml", GUARDED);
        let plan = lab.forge(&["plan"]);
        assert!(plan.contains("! guard: 5m (restores the state before unless a new login succeeds)"), "{plan}");
        let apply = lab.forge(&["apply", "--yes"]);
        assert!(apply.starts_with("exit 0\n"), "{apply}");
        assert_eq!(inside(lab, "cat /etc/netplan/lab.yaml"), "network: {}\n");
        let left = inside(lab, "ls -A /var/lib/forge/guard /run/forge; pgrep -xf 'sleep 300' || echo none");
        assert_eq!(left, "/run/forge:\n\n/var/lib/forge/guard:\nnone\n", "no timer is left");
    });
}
