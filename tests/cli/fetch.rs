//! `forge fetch`: the cache, the lock file, and what `--offline` forbids. No host is contacted.

use super::server::{Reply, Server};
use super::support::Place;

const BODY: &[u8] = b"a driver";
/// Of [`BODY`].
const DIGEST: &str = "90383ae1a1af0952d39bcf452e62c7d6de4381a03bdd30bf5ead80c3b9bf4b99";

fn serve() -> Server {
    Server::start(|request| match request.path.as_str() {
        "/driver.run" => Reply::file(BODY, request),
        _ => Reply::status(404),
    })
}

fn place(artifact: &str) -> Place {
    let recipe = format!("recipe: driver\nsteps:\n  - name: file\n    artifact: {artifact}\n");
    Place::new()
        .file("inventory.yaml", "cluster: lab\nhosts: [node-1, node-2]\napply: [{ recipe: driver, on: all }]\n")
        .file("recipes/driver.yaml", &recipe)
}

#[test]
fn the_cache_is_filled_once_and_looked_at_offline() {
    let server = serve();
    let url = server.url("/driver.run");
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{url}\", sha256: {DIGEST} }}"));
    let cache = "1 artifact at hand; the cache is `.forge/lab/artifacts`\n";
    let first = place.forge(&["fetch", "-q"]);
    assert_eq!(first, format!("exit 0\n--- stdout\nfetched {url} (8 bytes, sha256 {DIGEST})\n{cache}--- stderr\n"));
    let again = place.forge(&["fetch", "--offline", "-v"]);
    assert_eq!(
        again,
        format!(
            "exit 0\n--- stdout\nhere {url} (8 bytes, sha256 {DIGEST})\n  for driver/file on 2 hosts\n{cache}--- stderr\n"
        )
    );
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn what_cannot_be_had_ends_with_69() {
    let server = serve();
    let url = server.url("/gone.run");
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{url}\", sha256: {DIGEST} }}"));
    let told = place.forge(&["fetch"]);
    assert!(told.starts_with("exit 69\n"), "{told}");
    assert!(
        told.contains(&format!("failed `{url}` cannot be fetched: the server answered 404 (not found)\n  hint: look"))
    );
    assert!(told.contains("  for driver/file on 2 hosts\n0 artifacts at hand, 1 failed;"), "{told}");
    let offline = place.forge(&["fetch", "--offline", "--format", "json"]);
    assert!(offline.starts_with("exit 69\n") && offline.contains("forbids to fetch it"), "{offline}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_digest_that_is_left_out_is_noted_beside_the_inventory() {
    let server = serve();
    let url = server.url("/driver.run");
    let place = place(&format!("{{ path: /opt/driver.run, url: \"{url}\" }}"));
    let without = place.forge(&["validate"]);
    assert!(without.starts_with("exit 65\n") && without.contains("an artifact needs its `sha256`"), "{without}");
    assert!(
        without.contains("hint: write it down, or let `forge fetch --lock` note it beside the inventory"),
        "{without}"
    );
    let locked = place.forge(&["fetch", "--lock", "-q"]);
    assert!(locked.starts_with("exit 0\n") && locked.contains("written: inventory.yaml.lock\n"), "{locked}");
    let noted = format!("{{\n  \"version\": 1,\n  \"artifacts\": {{\n    \"{url}\": \"{DIGEST}\"\n  }}\n}}\n");
    assert_eq!(place.read("inventory.yaml.lock"), noted);
    assert!(place.forge(&["validate"]).starts_with("exit 0\n"));
    // What is noted holds: it is not learned anew.
    let again = place.forge(&["fetch", "--lock", "--offline", "-q"]);
    assert!(again.starts_with("exit 0\n") && !again.contains("written"), "{again}");
    let place = place.file("inventory.yaml.lock", &noted.replace(DIGEST, &"1".repeat(64)));
    assert!(place.forge(&["fetch"]).starts_with("exit 69\n"));
    let place = place.file("inventory.yaml.lock", "{");
    let broken = place.forge(&["validate"]);
    assert!(broken.contains("the lock file `inventory.yaml.lock` cannot be read: "), "{broken}");
}

#[test]
fn what_only_hosts_can_tell_is_named() {
    let place = place("{ path: /opt/x, url: \"http://127.0.0.1:9/{{ facts.os.id }}\", sha256: \"{{ facts.os.id }}\" }");
    let told = place.forge(&["fetch"]);
    let open = "open: `driver/file` depends on what only hosts can tell: `forge apply` fetches that\n";
    assert!(told.starts_with("exit 0\n") && told.contains(open), "{told}");
}

#[test]
fn a_file_of_the_inventory_is_read_and_compared() {
    let place = place(&format!("{{ path: /opt/x, file: files/driver, sha256: {DIGEST} }}"));
    let place = place.file("recipes/files/driver", "a driver");
    let told = place.forge(&["fetch"]);
    assert!(told.starts_with("exit 0\n--- stdout\nhere ") && told.contains("recipes/files/driver (8 bytes"), "{told}");
    let place = place.file("recipes/files/driver", "another driver");
    assert!(place.forge(&["fetch"]).starts_with("exit 69\n"));
    let outside = self::place(&format!("{{ path: /opt/x, file: ../../etc/hostname, sha256: {DIGEST} }}"));
    assert!(outside.forge(&["fetch"]).contains("leaves the inventory's tree"));
}
