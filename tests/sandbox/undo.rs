//! An undo takes back what the run changed, and no more. The host is the witness.

use super::host::{Lab, Who};

const INVENTORY: &str =
    "cluster: lab\nconnect: { transport: sandbox }\nhosts: { a: }\napply:\n  - { recipe: r, on: all }\n";

fn lab(recipe: &str) -> Option<Lab> {
    match Lab::new(Who::all()[0], &[("inventory.yaml", INVENTORY), ("recipes/r.yaml", recipe)]) {
        Ok(lab) => Some(lab),
        Err(why) => {
            eprintln!("skipped: a sandbox: {why}");
            None
        }
    }
}

#[test]
fn mount_that_the_run_found_stays() {
    let recipe = "recipe: r\nsteps:\n  - name: bind\n    mount: { path: /mnt/own, source: /srv/own, fstype: none, options: [bind] }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    inside("mkdir -p /srv/own /mnt/own; echo data >/srv/own/f; mount --bind /srv/own /mnt/own");
    let before = inside("cat /etc/fstab; cat /mnt/own/f");
    let applied = lab.forge(&["apply", "--yes"]);
    assert!(applied.starts_with("exit 0\n"), "{applied}");
    assert!(inside("cat /etc/fstab").contains("/mnt/own"));
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(inside("cat /etc/fstab; cat /mnt/own/f"), before, "{undone}");
    lab.nothing_is_left();
}

/// A file of somebody else keeps a directory; everything else is undone, and its records are as before.
#[test]
fn change_that_cannot_be_undone_keeps_no_other() {
    let recipe = "recipe: r\nsteps:\n  - { name: other, file: { path: /etc/other, content: x } }\n  \
        - { name: dir, directory: { path: /srv/dd } }\n  - { name: file, file: { path: /srv/dd/f, content: x } }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |code: &str| lab.inside("inventory.yaml", "a", code);
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    inside("touch /srv/dd/foreign");
    // The last change is undone first, so the directory is in the middle.
    let undone = lab.forge(&["undo", "last", "--yes"]);
    assert!(undone.starts_with("exit 3\n") && undone.contains("`/srv/dd` is not empty"), "{undone}");
    assert_eq!(
        inside("ls /srv/dd /etc/other 2>/dev/null; ls /var/lib/forge/applied"),
        "/srv/dd:\nforeign\nlab@r%2Fdir.json\n"
    );
    let drift = lab.forge(&["drift"]);
    assert!(!drift.contains("the machine changed"), "{drift}");
    lab.nothing_is_left();
}
