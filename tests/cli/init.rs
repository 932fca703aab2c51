//! `forge init`: the files that it writes are valid, and it does not overwrite files.

use super::support::Place;

#[test]
fn init_with_hosts_writes_a_valid_inventory() {
    let place = Place::new();
    assert_eq!(
        place.forge(&["init", "gpu[01:08]", "admin@login:2222", "--cluster", "lab"]),
        "exit 0\n--- stdout\nwritten: inventory.yaml: 9 hosts\nwritten: recipes/hello.yaml: a minimal starter recipe\n\
         next: forge doctor\n--- stderr\n"
    );
    assert!(place.read("inventory.yaml").contains("  gpu[01:08]: {}\n"), "{}", place.read("inventory.yaml"));
    assert_eq!(
        place.forge(&["validate"]),
        "exit 0\n--- stdout\nvalid: inventory.yaml: 9 hosts, 1 recipe, 1 step\n--- stderr\n"
    );
}

#[test]
fn host_ranges_are_written_unexpanded() {
    let place = Place::new();
    let said = place.forge(&["init", "h200-[01:14]=10.0.0.[11:24]", "n[1:9:2]", "a2", "a1", "--cluster", "lab"]);
    assert!(said.contains("written: inventory.yaml: 21 hosts\n"), "{said}");
    let text = place.read("inventory.yaml");
    assert!(text.contains("  h200-[01:14]:\n    address: 10.0.0.[11:24]\n  n[1:9:2]: {}\n"), "{text}");
    let said = place.forge(&["validate"]);
    assert!(said.starts_with("exit 0\n--- stdout\nvalid: inventory.yaml: 21 hosts"), "{said}");
}

#[test]
fn host_lists_accept_ranges() {
    let inventory = "cluster: c\nhosts: [\"h200-[01:14]\", login]\ngroups: { gpu: { hosts: [\"h200-[02:03]\"] } }\napply:\n  - { recipe: motd, on: \"h200-[04:05]\" }\n";
    let recipe = "recipe: motd\nsteps:\n  - { name: a, file: { path: /etc/motd, content: a } }\n";
    let place = Place::new().file("inventory.yaml", inventory).file("recipes/motd.yaml", recipe);
    let said = place.forge(&["validate"]);
    assert!(said.starts_with("exit 0\n--- stdout\nvalid: inventory.yaml: 15 hosts"), "{said}");
}

#[test]
fn init_without_hosts_uses_the_local_machine() {
    let place = Place::new();
    place.forge(&["init"]);
    assert!(place.read("inventory.yaml").contains("  localhost:\n    connect:\n      transport: local\n"));
    assert!(place.forge(&["validate"]).starts_with("exit 0\n"));
}

#[test]
fn init_does_not_overwrite_files() {
    let place = Place::new().file("inventory.yaml", "mine").file("recipes/hello.yaml", "recipe: hello\nsteps: []\n");
    assert_eq!(
        place.forge(&["init", "a"]),
        "exit 64\n--- stdout\n--- stderr\nerror: `inventory.yaml` already exists; init does not overwrite files\n  \
         hint: choose another path with `--into`, or move the file away\n"
    );
    assert_eq!(place.read("inventory.yaml"), "mine");
    let said = place.forge(&["init", "a", "--into", "other.yaml"]);
    assert!(said.contains("kept: recipes/hello.yaml, already exists\nnext: forge doctor other.yaml\n"), "{said}");
}

#[test]
fn invalid_host_name_is_rejected_before_writing() {
    let place = Place::new();
    assert_eq!(
        place.forge(&["init", "10.0.0.1", "::1"]),
        "exit 64\n--- stdout\n--- stderr\nerror: `::1`: `::1` is not a valid host name; write a name and the address: `gpu01=::1`\n"
    );
    assert!(place.forge(&["init", "a"]).starts_with("exit 0\n"), "the failed call wrote no file");
}

#[test]
fn ansible_import_lists_differences() {
    let hosts = "[web]\nw[1:2] ansible_user=admin ansible_password=x\n[web:vars]\nrack=a\nmotd='{{ x }}'\n";
    let place = Place::new().file("hosts.ini", hosts).file("group_vars/web.yml", "mode: 0644\n");
    insta::assert_snapshot!(place.forge(&[
        "init",
        "--from-ansible",
        "hosts.ini",
        "--cluster",
        "lab",
        "--json-into",
        "out.json"
    ]));
    insta::assert_snapshot!(place.read("inventory.yaml"));
    let document: serde_json::Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert_eq!(document["init"]["differences"][1]["at"][0], "hosts.ini:2");
    assert!(place.forge(&["validate"]).starts_with("exit 0\n"));
}

#[test]
fn ansible_import_error_shows_its_location() {
    let place = Place::new().file("hosts", "[web]\nw1 oops\n");
    insta::assert_snapshot!(place.forge(&["init", "--from-ansible", "hosts"]));
    assert!(place.forge(&["validate"]).contains("no inventory given"), "nothing was written");
}
